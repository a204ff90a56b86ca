// Times the model step of document 1: forward and backward of a sharded Qwen3, one thread a rank, AdamW
// untimed between. Its peer is peer_fsdp2.py.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/exit_status.h"
#include "cli/local_ranks.h"
#include "cli/qwen3_options.h"
#include "models/generator.h"
#include "models/qwen3.h"
#include "src/calls.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

constexpr std::size_t samples = 2, length = 8;
constexpr int warmup = 3;

struct StepOptions {
  std::optional<int> ranks;
  int steps = 20;
  Qwen3Choice qwen3;
};

std::vector<std::int64_t> ids_of(int rank, std::size_t vocabulary) {
  std::vector<std::int64_t> ids(samples * length);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int64_t>(splitmix64(static_cast<std::uint64_t>(rank) << 32 | i) % vocabulary);
  return ids;
}

double time_step(Communicator& communicator, Qwen3& model, const std::vector<std::int64_t>& ids) {
  communicator.run(barrier_call());
  const auto start = Clock::now();
  model.forward(ids, {samples, length});
  model.backward();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void run(Communicator& communicator, const StepOptions& options) {
  Qwen3 model(communicator.shared_from_this(), options.qwen3.config, {options.qwen3.types(), length});
  model.initialize_fresh(0);
  const std::vector<std::int64_t> ids = ids_of(communicator.rank(), options.qwen3.config.vocab_size);
  std::vector<double> times;
  for (int step = 1; step <= warmup + options.steps; ++step) {
    const double time = time_step(communicator, model, ids);
    if (step > warmup) times.push_back(time);
    model.step(AdamW{}, step);
    model.zero_gradients();
  }
  if (communicator.rank() != 0) return;
  std::sort(times.begin(), times.end());
  fmt::print("median {:.2f} ms of {} steps, {:.2f} to {:.2f}\n", times[times.size() / 2], times.size(),
             times.front(), times.back());
}

int run_program(int argc, char** argv) {
  CLI::App app{"Times forward and backward of document 1's model", "qwen3_step"};
  StepOptions options;
  options.qwen3.type = "f32";
  options.qwen3.config.num_hidden_layers = 4;
  app.add_option("-n,--ranks", options.ranks, "Number of local ranks (4)");
  app.add_option("--steps", options.steps, "Timed steps")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  add_type_options(app, options.qwen3);
  add_size_options(app, options.qwen3);
  try {
    app.parse(argc, argv);
    const auto body = [&](Communicator& communicator) { run(communicator, options); };
    return run_local_ranks(options.ranks, CommunicatorOptions{}, body);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

}  // namespace

int main(int argc, char** argv) { return run_program(argc, argv); }
