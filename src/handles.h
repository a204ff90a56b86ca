// What a C handle stands for. Handles are numbers that are never used twice, not addresses: one that is no
// more, or never was, is found out and not followed. With a step of 2 all are odd, or all even.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace rondo {

// Safe from any thread. `Handle` is a pointer type of the C interface. There is one Handles for each type.
template <typename Handle, typename Object>
class Handles {
 public:
  explicit Handles(std::uintptr_t first = 1, std::uintptr_t step = 1) : next_(first), step_(step) {}

  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = std::exchange(next_, next_ + step_);
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle>(number);
  }

  // Null if the handle is not valid. A thread keeps what it found last, so that a loop of calls pays for no
  // lock; the reference is good until its next look.
  const std::shared_ptr<Object>& find(Handle handle) const {
    Found& found = found_last();
    const std::uint64_t taken = taken_.load(std::memory_order_acquire);
    if (found.handle != handle || found.taken != taken) found = {handle, taken, look_up(handle)};
    return found.object;
  }

  // The object, whose handle is no longer valid. Null if it was not.
  std::shared_ptr<Object> take(Handle handle) {
    found_last() = {};
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    taken_.fetch_add(1, std::memory_order_release);  // what other threads remember may be no more
    return object;
  }

 private:
  struct Found {
    Handle handle = nullptr;
    std::uint64_t taken = 0;
    std::shared_ptr<Object> object;
  };
  static Found& found_last() {
    thread_local Found found;
    return found;
  }

  std::shared_ptr<Object> look_up(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  mutable std::mutex mutex_;
  std::uintptr_t next_;
  const std::uintptr_t step_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace rondo
