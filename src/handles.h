// What a C handle stands for. Handles are numbers that are never used twice, not addresses: one that is no
// more, or never was, is found out and not followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace rondo {

// Safe from any thread. `Handle` is a pointer type of the C interface.
template <typename Handle, typename Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = ++last_;
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle>(number);
  }

  // Null if the handle is not valid.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  // The object, whose handle is no longer valid. Null if it was not.
  std::shared_ptr<Object> take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::uintptr_t last_ = 0;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace rondo
