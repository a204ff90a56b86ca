// What a C handle stands for. Handles are numbers that are never used twice, not addresses: one that is no
// more, or never was, is found out and not followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace rondo {

// Safe from any thread. `Handle` is a pointer type of the C interface. There is one Handles for each type.
template <typename Handle, typename Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = ++last_;
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
  // Not from 1 on: CUDA has given 1 and 2 as streams a meaning of their own.
  std::uintptr_t last_ = 15;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace rondo
