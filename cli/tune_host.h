// Measures this host for a tune file: first which settings are the quickest, then the times with them.
#pragma once

#include <functional>
#include <vector>

#include "cli/tune_choice.h"
#include "src/communicator.h"
#include "src/tune_file.h"

namespace rondo {

struct TunePlan {
  std::vector<int> ranks;  // ascending
  std::size_t most_bytes;
  double seconds;  // for all of it, roughly
};

struct Tuned {
  const char* variable;
  std::size_t standard;
  Choice choice;
};

struct TuneResult {
  std::vector<Tuned> settings;
  std::vector<TunedTimes> times;
};

// How many times `advance` will be called.
std::size_t tune_step_count(const TunePlan& plan);
// Collective over a world of plan.ranks.back() ranks. The result is the same on all of them.
TuneResult tune_host(Communicator& world, const TunePlan& plan, const std::function<void()>& advance);

}  // namespace rondo
