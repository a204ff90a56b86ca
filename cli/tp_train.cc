// `rondo tp train`: trains a stack of blocks on one generated target.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/device_option.h"
#include "cli/progress_bar.h"
#include "cli/report_table.h"
#include "cli/tp.h"
#include "models/megatron_report.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about =
    "The loss is the mean squared error between the output for one generated x and one generated target, so "
    "it\n"
    "must fall; AdamW (weight decay 0.01) moves each rank's own weights, without communication.\n"
    "\n"
    "Examples:\n"
    "  rondo tp train\n"
    "  rondo tp train --layers 4 --steps 100 --lr 0.0003 --seq 64\n"
    "  rondo tp train --ranks 2 --norm post --conjugates dual --json";

struct TrainOptions : TpOptions {
  std::size_t layers = 2;
  std::int64_t steps = 20;
  double learning_rate = 1e-3;
};

// AdamW over this rank's weights of a model.
class Optimizer {
 public:
  Optimizer(MegatronModel& model, const MegatronConfig& config, double learning_rate)
      : model_(model), specs_(weight_specs(config)), adamw_{.learning_rate = learning_rate} {
    for (std::size_t layer = 0; layer < model.layers(); ++layer)
      for (const MegatronWeightSpec& spec : specs_) {
        const std::vector<float> zeros((model.block(layer).weights().*spec.placed).size());
        moments_.push_back({copy_to(model.compute(), zeros), copy_to(model.compute(), zeros)});
      }
  }

  void step() {
    ++steps_;
    auto moments = moments_.begin();
    for (std::size_t layer = 0; layer < model_.layers(); ++layer) {
      MegatronBlock& block = model_.block(layer);
      for (const MegatronWeightSpec& spec : specs_) {
        model_.compute().adamw_step(adamw_, steps_, block.weights().*spec.placed,
                                    block.weight_gradients().*spec.placed, moments->first, moments->second);
        ++moments;
      }
    }
  }

 private:
  struct Moments {
    Values first, second;
  };

  MegatronModel& model_;
  std::array<MegatronWeightSpec, 5> specs_;
  AdamW adamw_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;  // by layer and weight
};

// The losses before each step.
std::vector<double> train(Communicator& communicator, const TrainOptions& options, MegatronModel& model) {
  const MegatronConfig config = options.config();
  const std::vector<float> x = generated_input(config, "x"), target = generated_input(config, "target");
  std::vector<float> dout(config.elements());
  Optimizer optimizer(model, config, options.learning_rate);
  std::optional<ProgressBar> bar;
  if (communicator.rank() == 0) bar.emplace("training", static_cast<std::uint64_t>(options.steps));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    losses.push_back(squared_error_loss(model.forward(x), target, dout));
    model.backward(dout);
    optimizer.step();
    if (bar) bar->advance();
  }
  model.compute().finish();
  return losses;
}

void print_text(const TrainOptions& options, int ranks, const std::vector<double>& losses, double seconds,
                const std::vector<ReportRow>& rows) {
  fmt::print("Megatron stack: {}, {}\n",
             fmt::format("{} {}", options.layers, options.layers == 1 ? "layer" : "layers"),
             describe(options.config(), ranks));
  // About ten lines, however many steps.
  const std::size_t every = std::max<std::size_t>(losses.size() / 10, 1);
  for (std::size_t step = 0; step < losses.size(); ++step)
    if (step % every == 0 || step + 1 == losses.size())
      fmt::print("step {:>{}}  Loss: {:.4f}\n", step, fmt::formatted_size("{}", losses.size()), losses[step]);
  fmt::print("Backward done: {} steps, {:.1f} ms each\n", losses.size(),
             1e3 * seconds / static_cast<double>(losses.size()));
  print_rows(rows);
}

void print_json(const TrainOptions& options, int ranks, const std::vector<double>& losses, double seconds,
                const std::vector<ReportRow>& rows) {
  fmt::print("{}\n", Json{{"sizes", describe(options.config(), ranks)},
                          {"ranks", ranks},
                          {"layers", options.layers},
                          {"losses", losses},
                          {"seconds", seconds},
                          {"rows", report_json(rows)}}
                         .dump(2));
}

void run_train(Communicator& communicator, const TrainOptions& options) {
  const ChosenCompute compute(options.device, communicator);
  const std::unique_ptr<MegatronModel> model =
      generated_model(communicator, options.config(), options.layers, compute.get());
  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> losses = train(communicator, options, *model);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::uint64_t steps = losses.size();
  const std::vector<ReportRow> rows =
      merge_rows(communicator, megatron_rows(communicator, options.config(), {options.layers, steps, steps}));
  if (communicator.rank() != 0) return;
  options.json ? print_json(options, communicator.size(), losses, seconds, rows)
               : print_text(options, communicator.size(), losses, seconds, rows);
}

}  // namespace

void add_tp_train_command(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a stack of blocks on a generated target");
  add_tp_options(*command, *options);
  command->add_option("--layers", options->layers, "Blocks, one upon the other")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--lr", options->learning_rate, "Learning rate")
      ->check(CLI::Range(0.0, 1e3))
      ->capture_default_str();
  command->footer(about);
  command->callback([options] {
    run_tp(*options, [options](Communicator& communicator) { run_train(communicator, *options); });
  });
}

}  // namespace rondo
