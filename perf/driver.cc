#include "perf/driver.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "perf/bench_memory.h"
#include "perf/measure.h"
#include "perf/nccl_library.h"
#include "perf/options.h"
#include "perf/output.h"
#include "perf/ranks.h"
#include "src/error.h"

namespace rondo {
namespace {

constexpr int exit_failure = 1, exit_usage = 2, exit_skipped = 77;

std::string footer(const std::string& name) {
  return fmt::format(
      "The columns are nccl-tests'. Bandwidths: GB/s of 10^9 bytes; the size is the whole buffer's. time is "
      "the median\n"
      "over the iterations of the slowest rank's time for a call; sent is what the ledger measured.\n"
      "\n"
      "Examples:\n"
      "  {0} --ranks 2 -b 1K -e 64M -f 4\n"
      "  {0} --ranks 4 -b 1M -d bfloat16 -J result.json\n"
      "  rondo run -n 4 --bind --no-tags -- {0} -b 8 -e 1M -f 2",
      name);
}

void measure_all(Communicator& communicator, const std::vector<Callee>& callees, const Collective& collective,
                 const PerfOptions& options, PerfOutput* output) {
  for (const std::uint64_t bytes : sizes_of(options))
    for (const DataType type : options.types)
      for (const ReduceOp op : options.ops) {
        const Case out_of_place{bytes, type, op, false}, in_place{bytes, type, op, true};
        const auto outside = measure(communicator, callees, collective, out_of_place, options);
        const auto inside =
            options.in_place ? measure(communicator, callees, collective, in_place, options) : std::nullopt;
        if (output != nullptr) output->add(out_of_place, outside, inside);
      }
}

// `nccl`: what Rondo is compared with; null: nothing.
void run_rank(Communicator& communicator, const Collective& collective, const PerfOptions& options,
              const NcclLibrary* nccl) {
  if (options.root >= communicator.size())
    fail(ErrorKind::invalid_argument, "-r {}: expected a rank from 0 to {}", options.root,
         communicator.size() - 1);
  std::vector<Callee> callees{{"Rondo", rondo_functions, communicator.get()}};
  const auto shared = options.on_device ? take_devices(communicator) : std::nullopt;
  std::optional<Against> against;
  std::optional<NcclCommunicator> nccl_communicator;
  if (nccl != nullptr) {
    against = Against{nccl->path(), nccl->version(), ""};
    if (shared)
      against->left_out =
          fmt::format("ranks {} and {} share a GPU, which NCCL refuses", shared->first, shared->second);
    else
      callees.push_back(nccl_communicator.emplace(*nccl, communicator).callee());
  }
  std::optional<PerfOutput> output;
  if (communicator.rank() == 0) output.emplace(collective, options, communicator.size(), against);
  measure_all(communicator, callees, collective, options, output ? &*output : nullptr);
  communicator.finalize();
  if (!output) return;
  output->finish();
  if (output->wrong() > 0) fail(ErrorKind::internal, "{} elements are wrong", output->wrong());
}

WorldOptions world_of(const PerfOptions& options) {
  WorldOptions world;
  world.ranks = options.ranks;
  world.bind = options.bind;
  world.config.algorithm = options.algorithm == "auto" ? "" : options.algorithm;
  if (options.timeout >= 0)
    world.config.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1e3));
  return world;
}

int report(const std::string& name, const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", name, error.what());
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->kind() == ErrorKind::invalid_argument ? exit_usage : exit_failure;
}

}  // namespace

int perf_main(int argc, char** argv, const Collective& collective) {
  const std::string name = fmt::format("{}_perf", collective.name);
  CLI::App app{fmt::format("Measures {} between the processes of this host", collective.name), name};
  PerfOptions options;
  add_perf_options(app, options, collective);
  app.footer(footer(name));
  try {
    app.parse(argc, argv);
    sizes_of(options);
    if (!options.against.empty() && !options.on_device)
      fail(ErrorKind::invalid_argument, "--against {}: expected --memory device: NCCL takes no other memory",
           options.against);
    std::optional<NcclLibrary> nccl;
    if (!options.against.empty()) nccl.emplace(options.against, collective.function);
    if (options.on_device) {
      if (const std::string reason = why_no_device_memory(); !reason.empty()) {
        fmt::print(stderr, "{}: skipped: --memory device: {}\n", name, reason);
        return exit_skipped;
      }
    }
    const auto body = [&](Communicator& communicator) {
      run_rank(communicator, collective, options, nccl ? &*nccl : nullptr);
    };
    return run_world(name.c_str(), world_of(options), body);
  } catch (const CLI::Success& wish) {
    return app.exit(wish);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: {}\nTry `{} --help`.\n", name, error.what(), name);
    return exit_usage;
  } catch (const std::exception& error) {
    return report(name, error);
  }
}

}  // namespace rondo
