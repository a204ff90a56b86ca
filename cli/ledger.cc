// `rondo ledger`: both models on local ranks, every byte against the documents.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/exit_status.h"
#include "cli/local_ranks.h"
#include "cli/qwen3_options.h"
#include "cli/report_table.h"
#include "cli/table.h"
#include "cli/witness.h"
#include "models/fsdp_report.h"
#include "models/generator.h"
#include "models/megatron_report.h"
#include "src/gather_bytes.h"

namespace rondo {
namespace {

constexpr const char* about =
    "Runs a training step of document 1's Qwen3 decoder under FSDP and of document 2's tensor-parallel "
    "block,\n"
    "and sets the bytes that were counted where they moved beside the formula and the document. Every\n"
    "collective is checked to the byte as it ends; exit status 1 if any row differs.\n"
    "\n"
    "Examples:\n"
    "  rondo ledger                               4 ranks, document sizes, ring\n"
    "  rondo ledger --ranks 3 --algo direct       uneven shares: the matrix shows who sends more\n"
    "  rondo ledger --reduce f32                  gradients reduced in f32, PyTorch's default\n"
    "  rondo ledger --layers 8 --type bf16 --json rows for machines\n"
    "  rondo ledger --conjugates dual             the other pair of backward operators of document 2";

struct LedgerOptions {
  std::optional<int> ranks;
  std::string algorithm = "ring", device = "cpu";
  Qwen3Choice qwen3;
  TokenShape samples{2, 8};
  MegatronConfig megatron;
  bool megatron_sizes_given = false;
  std::string conjugates = "megatron";
  bool witness = false;
  bool json = false;
};

std::string direction_text(WitnessRow::Direction direction) {
  switch (direction) {
    case WitnessRow::Direction::sent:
      return "sent";
    case WitnessRow::Direction::received:
      return "received";
  }
  return "?";
}

// As messages name it, by its first rank.
std::string host_text(const Hosts& hosts, std::int64_t host) {
  const std::string& text = hosts.description(hosts.ranks[static_cast<std::size_t>(host)].front());
  return text.substr(text.find("host ") + 5);
}

struct Measured {
  std::vector<ReportRow> rows;
  struct Matrices {
    std::vector<std::uint64_t> measured, expected;
  };
  Matrices fsdp, tp;
  std::vector<WitnessRow> fsdp_witness, tp_witness;
};

std::vector<std::int64_t> sample_ids(TokenShape shape, std::size_t vocabulary, int rank) {
  std::vector<std::int64_t> ids(shape.tokens());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] =
        static_cast<std::int64_t>(splitmix64(static_cast<std::uint64_t>(rank) * ids.size() + i) % vocabulary);
  return ids;
}

void append(std::vector<ReportRow>& rows, std::vector<ReportRow> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Measured::Matrices matrices(Communicator& communicator) {
  return {ledger_matrix(communicator, ByteClass::payload), expected_matrix(communicator)};
}

void measure_fsdp(Communicator& communicator, const LedgerOptions& options, Compute& compute,
                  Measured& measured) {
  const FsdpTypes types = options.qwen3.types();
  Qwen3 model(communicator.shared_from_this(), options.qwen3.config,
              {types, options.samples.length, &compute});
  model.initialize_fresh(0);
  communicator.ledger().reset();
  std::optional<Witness> witness;
  if (options.witness) witness.emplace(communicator);
  model.forward(sample_ids(options.samples, options.qwen3.config.vocab_size, communicator.rank()),
                options.samples);
  model.backward();
  model.step({}, 1);
  compute.finish();
  if (witness) witness->stop();
  // Before the rows are merged, which moves bytes of its own.
  measured.fsdp = matrices(communicator);
  append(measured.rows, merge_rows(communicator, fsdp_rows(model, types, 1)));
  if (witness) measured.fsdp_witness = witness->rows();
}

void measure_megatron(Communicator& communicator, const LedgerOptions& options, Compute& compute,
                      Measured& measured) {
  const MegatronConfig& config = options.megatron;
  std::vector<MegatronWeights> layers;
  layers.push_back(generated_shard(config, 0, communicator.rank(), communicator.size()));
  MegatronModel model(communicator, config, std::move(layers), compute);
  const std::vector<float> x = generated_input(config, "x");
  communicator.ledger().reset();
  std::optional<Witness> witness;
  if (options.witness) witness.emplace(communicator);
  const std::span<const float> out = model.forward(x);
  std::vector<float> gradient(out.size());
  mean_loss(out, gradient);
  model.backward(gradient);
  compute.finish();
  if (witness) witness->stop();
  measured.tp = matrices(communicator);
  append(measured.rows, merge_rows(communicator, megatron_rows(communicator, config, {})));
  if (witness) measured.tp_witness = witness->rows();
}

void print_witness(const Communicator& communicator, const std::vector<WitnessRow>& rows) {
  Table table({{"host"},
               {""},
               number_column("ledger"),
               number_column("packets"),
               number_column("with headers"),
               number_column("counter"),
               number_column("unexplained")});
  for (const WitnessRow& row : rows)
    table.add({host_text(communicator.hosts(), row.host), direction_text(row.direction), row.ledger,
               row.packets, row.explained(), row.counter, fmt::format("{:.2f} %", 100 * row.unexplained())});
  table.print();
}

void print_witnesses(const Communicator& communicator, const Measured& measured) {
  if (communicator.hosts().one()) {
    fmt::print("\nAll ranks are on one host: nothing goes over a network, so there is nothing to witness.\n");
    return;
  }
  fmt::print(
      "\nThe witness: bytes between hosts by the ledger (payload and protocol), with 66 B of headers a "
      "packet, "
      "beside\nthe kernel's counters of the network interfaces. First model:\n");
  print_witness(communicator, measured.fsdp_witness);
  fmt::print("and second:\n");
  print_witness(communicator, measured.tp_witness);
}

void print_text(const Communicator& communicator, const LedgerOptions& options, const Measured& measured) {
  const std::size_t hosts = communicator.hosts().ranks.size();
  fmt::print("{} ranks on {}, {} collectives; parameters {}, gradients reduced in {}\n", communicator.size(),
             hosts == 1 ? "this host" : fmt::format("{} hosts", hosts), options.algorithm, options.qwen3.type,
             options.qwen3.reduce.empty() ? options.qwen3.type : options.qwen3.reduce);
  const MegatronConfig& tp = options.megatron;
  fmt::print("second model: batch {}, sequence {}, hidden {}, {} heads, {} conjugates\n", tp.batch,
             tp.sequence, tp.hidden, tp.heads, options.conjugates);
  print_report(measured.rows);
  fmt::print("\nBytes that each rank sent to each other in the step of the first model:\n");
  print_matrix(measured.fsdp.measured, communicator.size());
  fmt::print("and of the second:\n");
  print_matrix(measured.tp.measured, communicator.size());
  const bool same =
      measured.fsdp.measured == measured.fsdp.expected && measured.tp.measured == measured.tp.expected;
  fmt::print("{}\n", same ? "Both are what the formulas expect, edge by edge."
                          : "They are NOT what the formulas expect.");
  if (options.witness) print_witnesses(communicator, measured);
  const std::size_t wrong = inexact_rows(measured.rows);
  fmt::print("\n{}\n",
             wrong == 0 ? fmt::format("All {} rows are exact: measured - expected = 0 bytes on every rank.",
                                      measured.rows.size())
                        : fmt::format("{} of {} rows are NOT exact.", wrong, measured.rows.size()));
}

nlohmann::ordered_json witness_json(const Communicator& communicator, const std::vector<WitnessRow>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const WitnessRow& row : rows)
    all.push_back({{"host", host_text(communicator.hosts(), row.host)},
                   {"direction", direction_text(row.direction)},
                   {"ledger", row.ledger},
                   {"packets", row.packets},
                   {"with_headers", row.explained()},
                   {"counter", row.counter},
                   {"unexplained", row.unexplained()}});
  return all;
}

void print_json(const Communicator& communicator, const LedgerOptions& options, const Measured& measured) {
  nlohmann::ordered_json all{
      {"ranks", communicator.size()},
      {"algorithm", options.algorithm},
      {"rows", report_json(measured.rows)},
      {"matrix", {{"qwen3 fsdp", measured.fsdp.measured}, {"megatron tp", measured.tp.measured}}},
      {"expected_matrix", {{"qwen3 fsdp", measured.fsdp.expected}, {"megatron tp", measured.tp.expected}}}};
  if (options.witness && !communicator.hosts().one())
    all["witness"] = {{"qwen3 fsdp", witness_json(communicator, measured.fsdp_witness)},
                      {"megatron tp", witness_json(communicator, measured.tp_witness)}};
  fmt::print("{}\n", all.dump(2));
}

// Unless sizes were asked for, the second model gets a head a rank where the ranks do not divide the usual
// ones.
void fit_heads(LedgerOptions& options, int ranks) {
  MegatronConfig& config = options.megatron;
  const auto size = static_cast<std::size_t>(ranks);
  if (options.megatron_sizes_given || config.heads % size == 0) return;
  config.hidden = size * config.head_dim();
  config.heads = size;
}

void run_ledger(Communicator& communicator, LedgerOptions options) {
  fit_heads(options, communicator.size());
  Measured measured;
  const ChosenCompute compute(options.device, communicator);
  measure_fsdp(communicator, options, compute.get(), measured);
  measure_megatron(communicator, options, compute.get(), measured);
  if (communicator.rank() == 0)
    options.json ? print_json(communicator, options, measured) : print_text(communicator, options, measured);
  if (inexact_rows(measured.rows) > 0) fail(ErrorKind::internal, "the ledger does not balance");
}

CommunicatorOptions communicator_options(const LedgerOptions& options) {
  CommunicatorOptions result;
  result.settings.strict = true;
  result.settings.algorithm = parse_algorithm("--algo", options.algorithm);
  return result;
}

void check_options(LedgerOptions& options) {
  options.qwen3.types();
  require_valid(options.qwen3.config, "sizes");
  if (options.samples.length < 2)
    fail(ErrorKind::invalid_argument,
         "--length {}: expected at least 2 tokens, of which the last is only a label",
         options.samples.length);
  options.megatron.conjugates = options.conjugates == "dual" ? Conjugates::dual : Conjugates::megatron;
}

}  // namespace

void add_ledger_command(CLI::App& app) {
  const auto options = std::make_shared<LedgerOptions>();
  CLI::App* command = app.add_subcommand("ledger", "Every byte of both models against the documents");
  command->add_option("-n,--ranks", options->ranks, "Number of local ranks (4)");
  command->add_option("--algo", options->algorithm, "ring or direct")
      ->check(CLI::IsMember({"ring", "direct"}))
      ->capture_default_str();
  add_device_option(*command, options->device);
  add_type_options(*command, options->qwen3);
  add_size_options(*command, options->qwen3);
  const char* group = "Sizes of the work";
  const auto size = [&](const char* name, std::size_t& value, const char* what) {
    command->add_option(name, value, what)
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str()
        ->group(group);
  };
  size("--samples", options->samples.samples, "Samples a rank, first model");
  size("--length", options->samples.length, "Tokens a sample, first model");
  size("--vocab", options->qwen3.config.vocab_size, "Vocabulary, first model");
  size("--tp-batch", options->megatron.batch, "Samples, second model");
  size("--tp-seq", options->megatron.sequence, "Tokens a sample, second model");
  size("--tp-hidden", options->megatron.hidden, "Width, second model");
  size("--tp-heads", options->megatron.heads, "Heads, second model");
  command->add_option("--conjugates", options->conjugates, "megatron or dual, second model")
      ->check(CLI::IsMember({"megatron", "dual"}))
      ->capture_default_str();
  command->add_flag("--witness", options->witness,
                    "Set the kernel's interface counters beside the bytes between hosts; the ranks must be "
                    "started on several");
  command->add_flag("--json", options->json, "Rows for machines");
  command->footer(about);
  command->callback([options, command] {
    options->megatron_sizes_given = command->count("--tp-heads") + command->count("--tp-hidden") > 0;
    check_options(*options);
    const auto body = [options](Communicator& communicator) { run_ledger(communicator, *options); };
    finish_with(run_local_ranks(options->ranks, communicator_options(*options), body));
  });
}

}  // namespace rondo
