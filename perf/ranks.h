// Runs a function on every rank, by the public interface alone.
#pragma once

#include <functional>
#include <optional>

#include "include/rondo/rondo.hpp"

namespace rondo {

struct WorldOptions {
  std::optional<int> ranks;
  bool bind = false;  // each local rank on a CPU of its own, in turn
  Config config;
};

using WorldBody = std::function<void(Communicator&)>;

// As one rank of a launcher's world, where RANK and WORLD_SIZE are set; otherwise forks the ranks. Returns
// the exit status; what went wrong has been printed then.
int run_world(const char* program, const WorldOptions& options, const WorldBody& body);

}  // namespace rondo
