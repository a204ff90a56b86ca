// `rondo fsdp`: a sharded Qwen3, on a real checkpoint or trained on a text.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/exit_status.h"
#include "cli/local_ranks.h"
#include "cli/progress_bar.h"
#include "cli/qwen3_options.h"
#include "cli/report_table.h"
#include "cli/table.h"
#include "models/fsdp_report.h"
#include "models/qwen3_run.h"
#include "models/text_samples.h"
#include "models/trainer.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about_run =
    "Loads a transformers checkpoint (config.json, model.safetensors or several files with an index), each "
    "rank its\n"
    "own rows, and runs one forward and backward pass. The ids file is safetensors with int64 `input_ids`\n"
    "[samples, tokens]; ranks take the samples in order; labels are the next tokens; the loss is the mean "
    "over all\n"
    "ranks' label tokens. The out file is safetensors with `logits`, `loss` and `grad.NAME` for every "
    "parameter:\n"
    "tests/golden/check_with_torch.py holds it against your own PyTorch.\n"
    "\n"
    "Examples:\n"
    "  rondo fsdp run --model Qwen3-0.6B --ids ids.safetensors --out ours.safetensors\n"
    "  rondo fsdp run --model DIR --ids FILE --out FILE --ranks 2 --type bf16 --reduce f32";

constexpr const char* about_train =
    "Trains a small Qwen3 on the bytes of any text file. The samples of a step do not depend on the number "
    "of ranks,\n"
    "so that the loss curves of 1, 2 and 4 ranks agree.\n"
    "\n"
    "Examples:\n"
    "  rondo fsdp train --text README.md\n"
    "  rondo fsdp train --text book.txt --steps 500 --hidden 256 --layers 4 --ranks 2\n"
    "  rondo fsdp train --text book.txt --type f16 --json";

struct CommonOptions {
  std::optional<int> ranks;
  std::string algorithm = "auto", device = "cpu";
  Qwen3Choice qwen3;
  bool json = false;

  CommunicatorOptions communicator() const {
    CommunicatorOptions options;
    options.settings.algorithm = parse_algorithm("--algo", algorithm);
    options.settings.strict = true;
    return options;
  }
};

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("-n,--ranks", options.ranks, "Number of local ranks (4)");
  command.add_option("--algo", options.algorithm, "auto, ring or direct")
      ->check(CLI::IsMember({"auto", "ring", "direct"}))
      ->capture_default_str();
  add_device_option(command, options.device);
  add_type_options(command, options.qwen3);
  command.add_flag("--json", options.json, "Results for machines");
}

// ---- run ----

struct RunOptions : CommonOptions {
  std::string model, ids, out;
};

void run(Communicator& communicator, const RunOptions& options) {
  const Checkpoint checkpoint(options.model);
  const SampleFile samples(options.ids, checkpoint.config().vocab_size);
  const FsdpTypes types = options.qwen3.types();
  const ChosenCompute compute(options.device, communicator);
  Qwen3 model(communicator.shared_from_this(), checkpoint.config(), {types, samples.length, &compute.get()});
  model.initialize_from(checkpoint);
  communicator.ledger().reset();
  const Qwen3Run result = run_qwen3(model, samples, options.out);
  const auto rows = merge_rows(communicator, fsdp_rows(model, types, 1));
  if (communicator.rank() != 0) return;
  if (options.json) {
    fmt::print("{}\n", Json{{"loss", result.loss},
                            {"samples", result.samples},
                            {"tokens", result.length},
                            {"ranks", communicator.size()},
                            {"out", options.out},
                            {"rows", report_json(rows)}}
                           .dump(2));
    return;
  }
  fmt::print("{} samples of {} tokens on {} ranks, {} layers, parameters {}\n", result.samples, result.length,
             communicator.size(), checkpoint.config().num_hidden_layers, options.qwen3.type);
  fmt::print("loss {:.6f}; logits, loss and gradients are in {}\n", result.loss, options.out);
  print_report(rows);
}

void add_run(CLI::App& fsdp) {
  const auto options = std::make_shared<RunOptions>();
  options->qwen3.type = "f32";
  CLI::App* command = fsdp.add_subcommand("run", "Forward and backward of a transformers checkpoint");
  command->add_option("--model", options->model, "Folder of the checkpoint")->required();
  command->add_option("--ids", options->ids, "Safetensors file with input_ids")->required();
  command->add_option("--out", options->out, "Safetensors file to write")->required();
  add_common_options(*command, *options);
  command->footer(about_run);
  command->callback([options] {
    options->qwen3.types();
    const auto body = [options](Communicator& communicator) { run(communicator, *options); };
    finish_with(run_local_ranks(options->ranks, options->communicator(), body));
  });
}

// ---- train ----

struct TrainOptions : CommonOptions {
  std::string text;
  std::uint64_t steps = 100, seed = 0;
  std::size_t batch = 8, length = 64;
  double learning_rate = 3e-3;
};

struct Training {
  std::vector<StepResult> steps;
  std::vector<ReportRow> rows;
};

Training train(Communicator& communicator, const TrainOptions& options) {
  const TextSamples text(options.text, options.length);
  const FsdpTypes types = options.qwen3.types();
  const ChosenCompute compute(options.device, communicator);
  Qwen3 model(communicator.shared_from_this(), options.qwen3.config, {types, options.length, &compute.get()});
  model.initialize_fresh(options.seed);
  communicator.ledger().reset();
  TrainerOptions training;
  training.adamw.learning_rate = options.learning_rate;
  if (types.parameter == DataType::f16) training.loss_scale = 65536.0f;
  Trainer trainer(model, training);

  const RowRange mine = shard_rows(options.batch, communicator.rank(), communicator.size());
  std::optional<ProgressBar> bar;
  if (communicator.rank() == 0) bar.emplace("training", options.steps);
  Training result;
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    result.steps.push_back(trainer.step(text.of_step(step, mine), {mine.size(), options.length}));
    if (bar) bar->advance();
  }
  compute.get().finish();
  result.rows = merge_rows(communicator, fsdp_rows(model, types, options.steps));
  return result;
}

void print_curve(const std::vector<StepResult>& steps) {
  Table table({number_column("step"), number_column("loss"), number_column("gradient norm"), {""}});
  const double most = steps.front().loss;
  const std::size_t lines = 20, stride = std::max<std::size_t>(1, (steps.size() + lines - 1) / lines);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (step % stride != 0 && step + 1 != steps.size()) continue;
    const StepResult& one = steps[step];
    const auto width = static_cast<std::size_t>(std::clamp(one.loss / most, 0.0, 1.5) * 40);
    table.add({step + 1, fmt::format("{:.4f}", one.loss), fmt::format("{:.3f}", one.gradient_norm),
               one.skipped ? "overflow: step skipped, loss scale halved" : std::string(width, '#')});
  }
  table.print();
}

Json training_json(const Training& training, int ranks) {
  Json losses = Json::array(), norms = Json::array();
  for (const StepResult& step : training.steps) {
    losses.push_back(step.loss);
    norms.push_back(step.gradient_norm);
  }
  return {
      {"ranks", ranks}, {"losses", losses}, {"gradient_norms", norms}, {"rows", report_json(training.rows)}};
}

void report_training(Communicator& communicator, const TrainOptions& options) {
  const Training training = train(communicator, options);
  if (communicator.rank() != 0) return;
  if (options.json) {
    fmt::print("{}\n", training_json(training, communicator.size()).dump(2));
    return;
  }
  fmt::print("{} steps of {} samples x {} bytes of {} on {} ranks, parameters {}\n\n", options.steps,
             options.batch, options.length, options.text, communicator.size(), options.qwen3.type);
  print_curve(training.steps);
  print_report(training.rows);
}

void check_train_options(const TrainOptions& options) {
  options.qwen3.types();
  require_valid(options.qwen3.config, "sizes");
  TextSamples(options.text, options.length);
}

void add_train(CLI::App& fsdp) {
  const auto options = std::make_shared<TrainOptions>();
  options->qwen3.type = "f32";
  Qwen3Config& config = options->qwen3.config;
  config.vocab_size = 256;
  config.hidden_size = 128;
  config.intermediate_size = 256;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  CLI::App* command = fsdp.add_subcommand("train", "Train a small Qwen3 on the bytes of a text");
  command->add_option("--text", options->text, "Any file")->required();
  command->add_option("--steps", options->steps, "Training steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--batch", options->batch, "Samples a step, of all ranks together")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--length", options->length, "Bytes a sample")
      ->check(CLI::Range(2, 1 << 14))
      ->capture_default_str();
  command->add_option("--lr", options->learning_rate, "Learning rate of AdamW")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the fresh weights")->capture_default_str();
  add_common_options(*command, *options);
  add_size_options(*command, options->qwen3);
  command->footer(about_train);
  command->callback([options] {
    check_train_options(*options);
    const auto body = [options](Communicator& communicator) { report_training(communicator, *options); };
    finish_with(run_local_ranks(options->ranks, options->communicator(), body));
  });
}

}  // namespace

void add_fsdp_command(CLI::App& app) {
  CLI::App* fsdp = app.add_subcommand("fsdp", "Qwen3 under fully sharded data parallelism");
  fsdp->require_subcommand(1);
  add_run(*fsdp);
  add_train(*fsdp);
}

}  // namespace rondo
