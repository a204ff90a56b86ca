// Bandwidths as nccl-tests documents them (its doc/PERFORMANCE.md). The algorithm bandwidth is the size by
// the time, where the size is the whole buffer's: for all-gather and reduce-scatter that of all ranks' parts
// together. The bus bandwidth is what a link would have to carry in a ring: the algorithm bandwidth times a
// factor of the collective. One rank sends nothing: its bus bandwidth is 0.
#pragma once

#include <cstdint>

namespace rondo {

struct Bandwidth {
  double algorithm = 0;  // in GB/s: 10^9 bytes a second
  double bus = 0;
};

// Every byte crosses a link twice, but for the part that is a rank's own.
constexpr double all_reduce_bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }
// All-gather, reduce-scatter, all-to-all, gather and scatter: everything but a rank's own part, once.
constexpr double parts_bus_factor(int ranks) { return (ranks - 1.0) / ranks; }
// Broadcast, reduce, and messages: everything, once.
constexpr double whole_bus_factor(int ranks) { return ranks > 1 ? 1.0 : 0.0; }

constexpr Bandwidth bandwidth(std::uint64_t bytes, double seconds, double bus_factor) {
  if (!(seconds > 0)) return {};
  const double algorithm = static_cast<double>(bytes) / 1e9 / seconds;
  return {algorithm, algorithm * bus_factor};
}

}  // namespace rondo
