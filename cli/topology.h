// What hwloc tells of the machine. The build takes topology_hwloc.cc, or topology_absent.cc without hwloc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct CacheLevel {
  int level;
  int count;
  std::uint64_t bytes;  // of one
};

struct Topology {
  int packages = 0, cores = 0, threads = 0, numa_nodes = 0;
  std::vector<CacheLevel> caches;    // unified ones and data caches, from the smallest on
  std::vector<int> neighbour_order;  // every CPU, so that those that share a core or a cache stand together
};

// Nothing where the machine's topology cannot be read.
std::optional<Topology> read_topology();

// Such as "2.9.0", or "not built in".
std::string hwloc_version();

}  // namespace rondo
