// `rondo tp layer`: the block forward and backward, with generated tensors or those of a file.
#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/device_option.h"
#include "cli/report_table.h"
#include "cli/table.h"
#include "cli/tp.h"
#include "kernels/arithmetic.h"
#include "models/megatron_file.h"
#include "models/megatron_report.h"
#include "src/calls.h"
#include "src/gather_bytes.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about =
    "The loss is mean(out). The input file, safetensors, holds x [batch, seq, hidden], wq, wk, wv [hidden, "
    "hidden],\n"
    "w1 [hidden, ffn] and w2 [ffn, hidden], used as x @ w, in f32, f16, bf16 or f64; all is computed in f32. "
    "The\n"
    "output file gets out, loss, grad.x, grad.wq, grad.wk, grad.wv, grad.w1 and grad.w2.\n"
    "\n"
    "Examples:\n"
    "  rondo tp layer\n"
    "  rondo tp layer --ranks 2 --norm post --conjugates dual --algo ring\n"
    "  rondo tp layer --in block.safetensors --heads 4 --out gradients.safetensors";

struct LayerOptions : TpOptions {
  std::string in, out;  // paths; empty: none
};

struct Result {
  std::span<const float> out;
  double loss;
  std::span<const float> dx;
};

// By weight, of the whole. Collective.
std::array<double, 5> gradient_norms(Communicator& communicator, const MegatronConfig& config,
                                     const MegatronWeights& gradients) {
  std::array<double, 5> norms{};
  const auto specs = weight_specs(config);
  for (std::size_t index = 0; index < specs.size(); ++index)
    norms[index] = sum_of_squares(gradients.*specs[index].values);
  const LedgerScope scope(communicator.ledger(), report_scope);
  communicator.run(all_reduce_call({communicator.rank(), communicator.size()}, norms.data(), norms.data(),
                                   norms.size(), DataType::f64, {ReduceOp::sum}));
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

void print_text(const MegatronConfig& config, int ranks, const Result& result,
                const std::array<double, 5>& norms, const std::vector<ReportRow>& rows) {
  fmt::print("Megatron layer: {}\nLoss: {:.7g}\nMegatron layer backward OK\n\nNorms of the gradients:\n",
             describe(config, ranks), result.loss);
  Table table({{"tensor"}, {"shape"}, number_column("norm")});
  table.add({"x", to_string({config.batch, config.sequence, config.hidden}),
             fmt::format("{:.6g}", std::sqrt(sum_of_squares(result.dx)))});
  const auto specs = weight_specs(config);
  for (std::size_t index = 0; index < specs.size(); ++index)
    table.add({specs[index].name, to_string(specs[index].shape()), fmt::format("{:.6g}", norms[index])});
  table.print();
  if (config.norm == NormPlace::post)
    fmt::print(
        "  The mean of a LayerNorm's output is 0 whatever goes in: with --norm post and this loss all of "
        "them are\n"
        "  0 but for rounding.\n");
  print_rows(rows);
}

void print_json(const MegatronConfig& config, int ranks, const Result& result,
                const std::array<double, 5>& norms, const std::vector<ReportRow>& rows) {
  Json gradients{{"x", std::sqrt(sum_of_squares(result.dx))}};
  const auto specs = weight_specs(config);
  for (std::size_t index = 0; index < specs.size(); ++index) gradients[specs[index].name] = norms[index];
  const Json report{{"sizes", describe(config, ranks)},
                    {"ranks", ranks},
                    {"shape", {config.batch, config.sequence, config.hidden}},
                    {"loss", result.loss},
                    {"gradient_norms", gradients},
                    {"rows", report_json(rows)}};
  fmt::print("{}\n", report.dump(2));
}

// Collective: gradients go to rank 0, which writes the file.
void write_output(Communicator& communicator, const MegatronConfig& config, const std::string& path,
                  const Result& result, const MegatronWeights& gradients) {
  const LedgerScope scope(communicator.ledger(), report_scope);
  const MegatronWeights whole = gather_to_first(communicator, config, gradients);
  if (communicator.rank() == 0)
    write_megatron_output(path, config, {result.out, static_cast<float>(result.loss), result.dx, whole});
}

void run_layer(Communicator& communicator, const LayerOptions& options, const MegatronInput& input,
               MegatronModel& model) {
  const MegatronConfig& config = input.config;
  std::vector<float> dout(config.elements());
  Result result{model.forward(input.x), 0.0, {}};
  result.loss = mean_loss(result.out, dout);
  result.dx = model.backward(dout);
  const MegatronWeights gradients = model.block(0).gradients();
  const std::vector<ReportRow> rows = merge_rows(communicator, megatron_rows(communicator, config, {}));
  const std::array<double, 5> norms = gradient_norms(communicator, config, gradients);
  if (!options.out.empty()) write_output(communicator, config, options.out, result, gradients);
  if (communicator.rank() != 0) return;
  options.json ? print_json(config, communicator.size(), result, norms, rows)
               : print_text(config, communicator.size(), result, norms, rows);
}

void run_generated(Communicator& communicator, const LayerOptions& options) {
  const MegatronConfig config = options.config();
  const ChosenCompute compute(options.device, communicator);
  const std::unique_ptr<MegatronModel> model = generated_model(communicator, config, 1, compute.get());
  run_layer(communicator, options, {config, generated_input(config, "x"), {}}, *model);
}

void run_file(Communicator& communicator, const LayerOptions& options, const MegatronInput& input) {
  check(input.config, communicator.size());
  const ChosenCompute compute(options.device, communicator);
  MegatronModel model(communicator, input.config,
                      {shard_of(input.weights, input.config, communicator.rank(), communicator.size())},
                      compute.get());
  run_layer(communicator, options, input, model);
}

}  // namespace

void add_tp_layer_command(CLI::App& app) {
  const auto options = std::make_shared<LayerOptions>();
  CLI::App* command = app.add_subcommand("layer", "Run the block forward and backward");
  const std::vector<CLI::Option*> sizes = add_tp_options(*command, *options);
  CLI::Option* in =
      command->add_option("--in", options->in, "Take x and weights, and their sizes, from this file");
  for (CLI::Option* size : sizes) in->excludes(size);
  command->add_option("--out", options->out, "Write output, loss and gradients to this file");
  command->footer(about);
  command->callback([options] {
    if (options->in.empty())
      return run_tp(*options,
                    [options](Communicator& communicator) { run_generated(communicator, *options); });
    // Read once: the ranks, forked, share the pages.
    const MegatronInput input = read_megatron_input(options->in, options->config());
    run_tp(*options, [&](Communicator& communicator) { run_file(communicator, *options, input); });
  });
}

}  // namespace rondo
