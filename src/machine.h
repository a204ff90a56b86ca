// What tells this machine from others, and decides thresholds.
#pragma once

#include <cstddef>
#include <string>

namespace rondo {

struct Machine {
  std::string cpu;       // model
  int cores;             // in the cpuset of the container, whatever this process alone is bound to
  std::size_t l2_bytes;  // of one core
  std::size_t l3_bytes;  // of the last-level cache, which cores share
};

// Looked at once. Where the system does not tell of the caches, they are those of a small server.
const Machine& this_machine();

}  // namespace rondo
