#include "nccl/starts.h"

#include <thread>
#include <utility>
#include <vector>

#include "nccl/edge.h"

namespace rondo::nccl {
namespace {

// Starts that run one after another.
struct Lane {
  ncclComm_t parent;
  std::vector<std::function<void()>> starts;
  std::exception_ptr problem = nullptr;

  // All of them, whatever happens: other ranks wait for each.
  void run() {
    for (const auto& one : starts) {
      try {
        one();
      } catch (...) {
        if (!problem) problem = std::current_exception();
      }
    }
  }
};

struct Group {
  int depth = 0;
  std::vector<Lane> lanes;
};

Group& group() {
  thread_local Group open;
  return open;
}

void add(ncclComm_t parent, std::function<void()> start) {
  for (Lane& lane : group().lanes)
    if (parent != nullptr && lane.parent == parent) return lane.starts.push_back(std::move(start));
  Lane lane{parent, {}};
  lane.starts.push_back(std::move(start));
  group().lanes.push_back(std::move(lane));
}

void run(std::vector<Lane> lanes) {
  if (lanes.empty()) return;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < lanes.size(); ++i) threads.emplace_back([&lane = lanes[i]] { lane.run(); });
    lanes.front().run();
  }
  for (const Lane& lane : lanes)
    if (lane.problem) std::rethrow_exception(lane.problem);
}

}  // namespace

void start(const char* function, ncclComm_t parent, std::function<void()> start) {
  if (group().depth == 0) return start();
  add(parent, [function, start = std::move(start)] {
    try {
      start();
    } catch (const Failure& failure) {
      throw Failure{failure.result, std::string(function) + ": " + failure.text};
    }
  });
}

void group_start() {
  check(rondoGroupStart());
  ++group().depth;
}

void group_end() {
  const rondoResult_t calls = rondoGroupEnd();
  const std::string problem = calls == rondoSuccess ? "" : rondo_error();
  if (group().depth > 0 && --group().depth == 0) run(std::exchange(group().lanes, {}));
  if (calls != rondoSuccess) throw Failure{result_from(calls), problem};
}

}  // namespace rondo::nccl
