#include "src/device_health.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace rondo {
namespace {

using namespace std::chrono_literals;

constexpr auto time_between_questions = 10ms;

class Watch {
 public:
  // Never destroyed: its thread may outlive static objects.
  static Watch& instance() {
    static auto* const watch = new Watch;
    return *watch;
  }

  std::shared_ptr<const DeviceHealth> add(Device& device, DeviceStream companion) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<DeviceHealth>& known = watched_[{&device, companion}];
    std::shared_ptr<DeviceHealth> health = known.lock();
    if (!health) known = health = std::make_shared<DeviceHealth>(device, companion);
    if (!std::exchange(has_thread_, true)) std::thread([this] { run(); }).detach();
    added_.notify_one();
    return health;
  }

  void remove(const Device& device) {
    const std::lock_guard none_asks(asking_);
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [&](const auto& one) { return one.first.first == &device; });
  }

 private:
  void run() {
    while (true) {
      wait_for_work();
      std::this_thread::sleep_for(time_between_questions);
      const std::lock_guard lock(asking_);
      for (const auto& health : all()) health->ask();
    }
  }

  void wait_for_work() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return !watched_.empty(); });
  }

  std::vector<std::shared_ptr<DeviceHealth>> all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<DeviceHealth>> held;
    std::erase_if(watched_, [&](const auto& one) {
      if (auto health = one.second.lock()) held.push_back(std::move(health));
      return one.second.expired();
    });
    return held;
  }

  std::mutex asking_;  // held while a device is asked, which may be long; before mutex_
  std::mutex mutex_;
  std::condition_variable added_;
  bool has_thread_ = false;
  std::map<std::pair<const Device*, DeviceStream>, std::weak_ptr<DeviceHealth>> watched_;
};

}  // namespace

void DeviceHealth::need_well() const {
  if (failed_.load(std::memory_order_acquire)) throw Error(*error_);
}

void DeviceHealth::ask() {
  if (failed_.load(std::memory_order_relaxed)) return;
  try {
    device_.check(companion_);
  } catch (const Error& error) {
    error_ = error;
    failed_.store(true, std::memory_order_release);
  }
}

std::shared_ptr<const DeviceHealth> watch(Device& device, DeviceStream companion) {
  return Watch::instance().add(device, companion);
}

void stop_watching(const Device& device) { Watch::instance().remove(device); }

}  // namespace rondo
