// `rondo tp`: the Megatron tensor-parallel block of document 2.
#include "cli/tp.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/exit_status.h"
#include "cli/report_table.h"

namespace rondo {
namespace {

constexpr const char* about =
    "LayerNorm, attention with its heads split over the ranks, all-gather, residual; LayerNorm, FFN split "
    "by\n"
    "columns and then by rows, all-reduce, residual. Weights and x are generated: the same whatever the "
    "number\n"
    "of ranks.\n"
    "\n"
    "Examples:\n"
    "  rondo tp block                          who holds what, and what a forward pass sends\n"
    "  rondo tp layer --conjugates dual        forward and backward, with the other pair of operators\n"
    "  rondo tp train --layers 2 --steps 20    a loss that falls\n"
    "  rondo tp profile --seqs 128,256,512     where the time goes";

}  // namespace

MegatronConfig TpOptions::config() const {
  MegatronConfig config = sizes;
  config.norm = norm == "post" ? NormPlace::post : NormPlace::pre;
  config.conjugates = conjugates == "dual" ? Conjugates::dual : Conjugates::megatron;
  return config;
}

std::vector<CLI::Option*> add_tp_options(CLI::App& command, TpOptions& options, SequenceOption sequence) {
  command.add_option("-n,--ranks", options.ranks, "Number of local ranks (4)");
  command.add_option("--algo", options.algorithm, "Algorithm: auto, ring or direct (RONDO_ALGO, else auto)")
      ->check(CLI::IsMember({"auto", "ring", "direct"}));
  command.add_option("--norm", options.norm, "pre: x + part(LN(x)); post: LN(x + part(x))")
      ->check(CLI::IsMember({"pre", "post"}))
      ->capture_default_str();
  command
      .add_option("--conjugates", options.conjugates,
                  "Backward operators: megatron (2 all-reduces) or dual (all-reduce, reduce-scatter)")
      ->check(CLI::IsMember({"megatron", "dual"}))
      ->capture_default_str();
  add_device_option(command, options.device);
  command.add_flag("--json", options.json, "Results for machines");
  MegatronConfig& sizes = options.sizes;
  command.add_option("--heads", sizes.heads, "Attention heads, a multiple of the ranks")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Sizes");
  std::vector<CLI::Option*> size_options;
  const auto size = [&](const char* name, auto& value, const char* what) {
    size_options.push_back(
        command.add_option(name, value, what)->check(CLI::NonNegativeNumber)->group("Sizes"));
    return size_options.back();
  };
  size("--batch", sizes.batch, "Samples")->capture_default_str();
  if (sequence == SequenceOption::yes)
    size("--seq", sizes.sequence, "Tokens a sample")->capture_default_str();
  size("--hidden", sizes.hidden, "Width, a multiple of the heads")->capture_default_str();
  size("--ffn", sizes.ffn, "Width of the FFN, a multiple of the ranks (4 x hidden)");
  return size_options;
}

void run_tp(const TpOptions& options, const RankBody& body) {
  CommunicatorOptions communicator;
  communicator.settings.strict = true;
  if (!options.algorithm.empty())
    communicator.settings.algorithm = parse_algorithm("--algo", options.algorithm);
  finish_with(run_local_ranks(options.ranks, communicator, body));
}

std::unique_ptr<MegatronModel> generated_model(Communicator& communicator, const MegatronConfig& config,
                                               std::size_t layers, Compute& compute) {
  check(config, communicator.size());
  std::vector<MegatronWeights> weights;
  for (std::size_t layer = 0; layer < layers; ++layer)
    weights.push_back(generated_shard(config, layer, communicator.rank(), communicator.size()));
  return std::make_unique<MegatronModel>(communicator, config, std::move(weights), compute);
}

std::string describe(const MegatronConfig& config, int ranks, const std::string& sequences) {
  return fmt::format("batch {}, sequence {}, hidden {} ({} {} of {}), ffn {}, {}-norm, {} conjugates, {} {}",
                     config.batch, sequences.empty() ? fmt::format("{}", config.sequence) : sequences,
                     config.hidden, config.heads, config.heads == 1 ? "head" : "heads", config.head_dim(),
                     config.ffn_width(), name_of(config.norm), name_of(config.conjugates), ranks,
                     ranks == 1 ? "rank" : "ranks");
}

void print_rows(const std::vector<ReportRow>& rows) {
  print_report(rows);
  const std::size_t wrong = inexact_rows(rows);
  if (wrong > 0)
    fail(ErrorKind::internal, "the ledger does not balance: {} of {} rows are not exact", wrong, rows.size());
  fmt::print("All {} rows are exact on every rank.\n", rows.size());
}

void add_tp_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tp", "The Megatron tensor-parallel block: build, run, train, profile");
  command->require_subcommand(1);
  command->footer(about);
  add_tp_block_command(*command);
  add_tp_layer_command(*command);
  add_tp_train_command(*command);
  add_tp_profile_command(*command);
}

}  // namespace rondo
