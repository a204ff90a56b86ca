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

using Core = std::vector<int>;  // numbers of its CPUs
using CacheGroup = std::vector<Core>;

struct Topology {
  int packages = 0, cores = 0, threads = 0, numa_nodes = 0;
  std::vector<CacheLevel> caches;  // unified ones and data caches, from the smallest on
  // Cores that share a last-level cache, or a package where there is none; neighbours stand together.
  std::vector<CacheGroup> cache_groups;
};

// Nothing where the machine's topology cannot be read.
std::optional<Topology> read_topology();

// Such as "2.9.0", or "not built in".
std::string hwloc_version();

}  // namespace rondo
