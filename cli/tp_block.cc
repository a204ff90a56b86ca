// `rondo tp block`: builds the block, runs it forward, and shows who holds what.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/device_option.h"
#include "cli/report_table.h"
#include "cli/table.h"
#include "cli/tp.h"
#include "kernels/arithmetic.h"
#include "models/megatron_report.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about =
    "Examples:\n"
    "  rondo tp block\n"
    "  rondo tp block --ranks 2 --batch 1 --seq 16 --hidden 64 --heads 4 --algo ring\n"
    "  rondo tp block --norm post --json";

std::string run_of(std::size_t first, std::size_t count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, first + count - 1);
}

void print_holdings(const MegatronConfig& config, int ranks) {
  Table table({{"rank"},
               {"x, out"},
               {"heads"},
               {"wq, wk, wv: columns"},
               {"w1: columns"},
               {"w2: rows"},
               number_column("weights")});
  const auto specs = weight_specs(config);
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t held = 0;
    for (const MegatronWeightSpec& spec : specs) held += spec.patch(rank, ranks).elements();
    const Patch q = specs[0].patch(rank, ranks), w1 = specs[3].patch(rank, ranks),
                w2 = specs[4].patch(rank, ranks);
    table.add({fmt::format("{}", rank), "whole",
               run_of(q.first_column / config.head_dim(), q.columns / config.head_dim()),
               run_of(q.first_column, q.columns), run_of(w1.first_column, w1.columns),
               run_of(w2.first_row, w2.rows), held});
  }
  table.print();
}

void print_shapes(const MegatronConfig& config, int ranks) {
  Table table({{"tensor"}, {"whole"}, {"a rank holds"}, {"cut"}});
  const std::size_t parts = static_cast<std::size_t>(ranks);
  const Shape x{config.batch, config.sequence, config.hidden};
  table.add({"x, residuals, out", to_string(x), to_string(x), "not"});
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    const Patch patch = spec.patch(0, ranks);
    table.add({spec.name, to_string(spec.shape()), to_string({patch.rows, patch.columns}),
               spec.by_rows ? "by rows" : "by columns"});
  }
  table.add({"q, k, v, heads' outputs", to_string(x),
             to_string({config.batch, config.sequence, config.hidden / parts}), "by heads"});
  table.add({"gelu(t w1)", to_string({config.batch, config.sequence, config.ffn_width()}),
             to_string({config.batch, config.sequence, config.ffn_width() / parts}), "by columns"});
  table.print();
}

struct Checksum {
  double mean, norm;
};

Checksum checksum_of(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += value;
  return {sum / static_cast<double>(values.size()), std::sqrt(sum_of_squares(values))};
}

void print_text(const MegatronConfig& config, int ranks, std::span<const float> out,
                const std::vector<ReportRow>& rows) {
  const Checksum checksum = checksum_of(out);
  fmt::print("Megatron block: {}\n\n", describe(config, ranks));
  print_shapes(config, ranks);
  fmt::print("\nWho holds what (numbers of heads, columns and rows; weights in elements):\n");
  print_holdings(config, ranks);
  fmt::print("\nOutput of the forward pass: mean {:.7g}, norm {:.7g}, first element {:.7g}\n", checksum.mean,
             checksum.norm, out.front());
  print_rows(rows);
}

void print_json(const MegatronConfig& config, int ranks, std::span<const float> out,
                const std::vector<ReportRow>& rows) {
  const Checksum checksum = checksum_of(out);
  Json tensors = Json::object();
  for (const MegatronWeightSpec& spec : weight_specs(config)) {
    Json held = Json::array();
    for (int rank = 0; rank < ranks; ++rank) {
      const Patch patch = spec.patch(rank, ranks);
      held.push_back({{"first_row", patch.first_row},
                      {"rows", patch.rows},
                      {"first_column", patch.first_column},
                      {"columns", patch.columns}});
    }
    tensors[spec.name] = {{"shape", spec.shape()}, {"held", held}};
  }
  const Json report{{"sizes", describe(config, ranks)},
                    {"ranks", ranks},
                    {"shape", {config.batch, config.sequence, config.hidden}},
                    {"weights", tensors},
                    {"output", {{"mean", checksum.mean}, {"norm", checksum.norm}, {"first", out.front()}}},
                    {"rows", report_json(rows)}};
  fmt::print("{}\n", report.dump(2));
}

void run_block(Communicator& communicator, const TpOptions& options) {
  const MegatronConfig config = options.config();
  const ChosenCompute compute(options.device, communicator);
  const std::unique_ptr<MegatronModel> model = generated_model(communicator, config, 1, compute.get());
  const std::vector<float> x = generated_input(config, "x");
  const std::span<const float> out = model->forward(x);
  const std::vector<ReportRow> rows =
      merge_rows(communicator, megatron_rows(communicator, config, {1, 1, 0}));
  if (communicator.rank() != 0) return;
  options.json ? print_json(config, communicator.size(), out, rows)
               : print_text(config, communicator.size(), out, rows);
}

}  // namespace

void add_tp_block_command(CLI::App& app) {
  const auto options = std::make_shared<TpOptions>();
  CLI::App* command = app.add_subcommand("block", "Build the block, run it forward, show who holds what");
  add_tp_options(*command, *options);
  command->footer(about);
  command->callback([options] {
    run_tp(*options, [options](Communicator& communicator) { run_block(communicator, *options); });
  });
}

}  // namespace rondo
