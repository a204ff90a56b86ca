// Measures one collective at one size: the bytes, the check of every element, the times, the ledger.
#pragma once

#include <cstdint>
#include <optional>

#include "include/rondo/rondo.hpp"
#include "perf/collective.h"
#include "perf/options.h"

namespace rondo {

// In seconds: for each iteration that of the slowest rank.
struct Times {
  double first;  // the first call with these buffers, which may set things up
  double median, p99, least, mean;
};

struct Measured {
  Times times;
  std::optional<std::uint64_t> wrong;  // elements on all ranks; nothing: not checked
  double sent;                         // payload bytes of one call, of the rank that sends most
  int iterations;
};

struct Case {
  std::uint64_t bytes;  // as asked for; what it comes to may be a little less
  DataType type;
  ReduceOp op;
  bool in_place;
};

// The size as the table shows it, and the `count` that calls are given.
std::uint64_t bytes_of(const Collective& collective, const Case& which, int ranks, int root);
std::size_t count_of(const Collective& collective, const Case& which, int ranks, int root);

// Collective. Nothing: the collective has no form in place.
std::optional<Measured> measure(Communicator& communicator, const Collective& collective, const Case& which,
                                const PerfOptions& options);

}  // namespace rondo
