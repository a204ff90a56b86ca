// Runs a command of the `rondo` program itself on several ranks: in forked processes, or as one rank of the
// world that a launcher made.
#pragma once

#include <functional>
#include <optional>

#include "src/communicator.h"

namespace rondo {

inline constexpr int default_local_ranks = 4;

// Runs on every rank. Throws what goes wrong. Whatever only one rank should do, it does where
// communicator.rank() is 0.
using RankBody = std::function<void(Communicator&)>;

// Returns the exit status of the command: 0, or that of the rank that failed first, whose message has been
// printed then; pass it to finish_with().
//  - Started by a launcher (RANK and WORLD_SIZE are set), this process is one rank of that world. `ranks`,
//    where given, must be its size.
//  - Otherwise forks `ranks` processes (default_local_ranks where not given), ends all when one fails, and
//    returns when all have ended. They die with this process, and a Ctrl-C at the terminal reaches all.
// Each rank computes with one thread. Must be called before this process has used OpenMP or made threads.
int run_local_ranks(std::optional<int> ranks, const CommunicatorOptions& options, const RankBody& body);

}  // namespace rondo
