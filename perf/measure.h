// Measures one collective at one size: the bytes, the check of every element, the times, the ledger.
#pragma once

#include <cstdint>
#include <optional>

#include "include/rondo/rondo.hpp"
#include "perf/bench.h"
#include "perf/collective.h"
#include "perf/options.h"

namespace rondo {

// In seconds: for each iteration that of the slowest rank.
struct Times {
  double first;  // the first call with these buffers, which may set things up
  double median, p99, least, mean;
};

struct CalleeMeasured {
  Times times;
  std::optional<std::uint64_t> wrong;  // elements on all ranks; nothing: not checked
};

struct Measured : CalleeMeasured {
  double sent;  // payload bytes of one call, of the rank that sends most
  int iterations;
  // Of whom Rondo is compared with, on the same buffers. The calls of both take turns in rounds; the ratio is
  // the median of the rounds' ratios of its time to Rondo's.
  struct Other : CalleeMeasured {
    double ratio;
  };
  std::optional<Other> other;
};

// The size as the table shows it, and the `count` that calls are given.
std::uint64_t bytes_of(const Collective& collective, const Case& which, int ranks, int root);
std::size_t count_of(const Collective& collective, const Case& which, int ranks, int root);

// Collective. `callees`: Rondo, and maybe one that it is compared with. Nothing: the collective has no form
// in place.
std::optional<Measured> measure(Communicator& communicator, const std::vector<Callee>& callees,
                                const Collective& collective, const Case& which, const PerfOptions& options);

}  // namespace rondo
