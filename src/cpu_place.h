// Where on its machine a rank runs, so that a ring can go from neighbour to neighbour. Read from the kernel:
// the core of the library needs no hwloc, which `rondo run --bind` has used before to number ranks along the
// machine.
#pragma once

#include <compare>
#include <filesystem>
#include <span>

namespace rondo {

// Ranks whose places follow one another are near: first come those of one package, among them those of one
// NUMA node, and so on. All -1: unknown.
struct CpuPlace {
  int package = -1, node = -1;
  int cache = -1;  // first of the CPUs that share the last-level cache
  int core = -1;   // as the kernel numbers it, in its package

  bool known() const { return package >= 0; }
  friend auto operator<=>(const CpuPlace&, const CpuPlace&) = default;
};

// Of a process that may run on these CPUs, which are in order. Unknown where they share no last-level cache,
// or the kernel does not tell.
CpuPlace cpu_place(std::span<const int> cpus,
                   const std::filesystem::path& system = "/sys/devices/system/cpu");

}  // namespace rondo
