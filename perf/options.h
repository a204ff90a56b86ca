// The command line of the perf programs: nccl-tests' flags, as far as they apply to a host, and ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/buffer.h"
#include "cli/bytes.h"
#include "kernels/types.h"
#include "perf/collective.h"

namespace CLI {
class App;
}

namespace rondo {

struct PerfOptions {
  std::optional<int> ranks;  // local ones; nothing: 2, or the world of a launcher
  bool bind = false;
  std::uint64_t least = 32 << 20, most = 0;  // bytes; most 0: as least
  std::uint64_t step = 1 << 20, factor = 1;  // the next size; a factor of 1 stands for the step
  std::optional<int> iterations;             // nothing: as many as the size deserves
  int warmup = 5, checks = 1, calls = 1;
  std::vector<DataType> types;
  std::vector<ReduceOp> ops;
  int root = 0;
  bool blocking = true, clean = false, in_place = true;
  BufferKind memory = BufferKind::malloc;
  bool on_device = false;  // the buffers lie in a device's memory instead
  std::string against;     // "nccl", the path of an NCCL, or nothing
  std::string algorithm = "auto";
  std::string json;  // a file, "-", or nothing
  double timeout = -1;

  const char* memory_name() const { return on_device ? "device" : name_of(memory); }
  bool text() const { return json != "-"; }
};

void add_perf_options(CLI::App& app, PerfOptions& options, const Collective& collective);

// The sizes from least to most, in bytes.
std::vector<std::uint64_t> sizes_of(const PerfOptions& options);

int iterations_for(const PerfOptions& options, std::uint64_t bytes);

// As nccl-tests writes them: "float", "mulsum".
const char* perf_name_of(DataType type);
const char* perf_name_of(ReduceOp op);

}  // namespace rondo
