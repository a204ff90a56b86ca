// Starts the ranks of a program on this host, passes on their output and the signals that come, and ends all
// of them when one fails.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct LaunchOptions {
  int ranks = 1;
  bool bind = false;  // each rank to cores of its own, where there are enough
  bool tags = true;   // "[rank] " before each line of output
  std::vector<std::string> command;
};

// Stays until all ranks have ended. Returns 0 if all did well, else the status of the rank that failed first:
// its exit status, or 128 + the signal that ended it; 127 if the program cannot be executed.
int launch(const LaunchOptions& options);

}  // namespace rondo
