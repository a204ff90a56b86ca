// Runs a test body as every rank of a communicator: in forked processes, or in threads of this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "src/communicator.h"

namespace rondo::test {

enum class RanksAre { processes, threads };

// What a child process exits with. GoogleTest's own report of what failed goes to the shared stderr.
inline constexpr int child_ok = 0, child_failed = 3;

// Forks a process for each rank, runs `body(rank)` in it, and expects that none fails.
inline void run_processes(int size, const std::function<void(int)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? child_failed : child_ok);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == child_ok)
        << "rank " << rank << (WIFSIGNALED(status) ? " was ended by a signal" : " failed (see above)");
  }
}

inline void run_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
}

// An algorithm in a test's name.
inline std::string test_name(Algorithm algorithm) {
  std::string name = name_of(algorithm);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Tests run with the ledger strict and with a deadline short enough that a hang is a failure soon.
inline CommunicatorOptions test_options(Algorithm algorithm = Algorithm::automatic) {
  CommunicatorOptions options;
  options.settings.strict = true;
  options.settings.timeout = std::chrono::seconds(60);
  options.settings.algorithm = algorithm;
  return options;
}

// Runs `body` with a communicator of `size` ranks.
inline void run_ranks(int size, const std::function<void(Communicator&)>& body,
                      CommunicatorOptions options = test_options(), RanksAre kind = RanksAre::processes) {
  const UniqueId id = UniqueId::make();
  const auto one = [&](int rank) {
    const auto communicator = Communicator::create(id.meeting_place(), rank, size, options);
    body(*communicator);
  };
  if (kind == RanksAre::processes)
    run_processes(size, one);
  else
    run_threads(size, one);
}

// How many calls the communicator's ledger has of an algorithm.
inline std::uint64_t calls_on(Communicator& comm, Algorithm algorithm) {
  std::uint64_t calls = 0;
  for (const auto& [key, row] : comm.ledger().rows())
    if (key.algorithm == algorithm) calls += row.calls;
  return calls;
}

}  // namespace rondo::test
