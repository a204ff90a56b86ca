#include "src/stream.h"

#include <algorithm>

#include "src/engine.h"

namespace rondo {
namespace {

bool done(const PendingCall& call) { return call.done.load(std::memory_order_acquire); }

}  // namespace

Stream::Stream() { start_progress_thread(); }

void Stream::submit(Communicator& communicator, Call call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& one) { return done(*one) && !one->error; });
  const auto started = communicator.start(std::move(call), last_.lock());
  calls_.push_back(started);
  last_ = started;
  keep_going(started);
}

std::vector<std::shared_ptr<PendingCall>> Stream::take_calls() {
  const std::lock_guard lock(mutex_);
  return std::exchange(calls_, {});
}

void Stream::synchronize() { wait_for_all(take_calls()); }

bool Stream::query() {
  {
    const std::lock_guard lock(mutex_);
    // Calls end in the order of the stream.
    const auto last = last_.lock();
    if (last && !done(*last)) return false;
  }
  synchronize();
  return true;
}

}  // namespace rondo
