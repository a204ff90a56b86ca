// Tries what the transports need of the operating system, which containers and sandboxes may forbid.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct Probe {
  std::string name;
  std::string used_for;
  bool needed;          // without it, the transport does not work
  std::string problem;  // why not; empty: it works

  bool works() const { return problem.empty(); }
};

// Each part of the shared-memory transport. Leaves nothing behind.
std::vector<Probe> probe_shared_memory();

}  // namespace rondo
