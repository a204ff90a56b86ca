#include "src/errands.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace rondo {
namespace {

class Errands {
 public:
  // Never destroyed: its thread may outlive static objects.
  static Errands& instance() {
    static auto* const errands = new Errands;
    return *errands;
  }

  void add(std::function<void()> body) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(body));
    if (!std::exchange(has_thread_, true)) std::thread([this] { run(); }).detach();
    changed_.notify_all();
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !waiting_.empty(); });
      std::function<void()> body = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      body();
      body = nullptr;
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false, has_thread_ = false;
};

}  // namespace

void run_errand(std::function<void()> body) { Errands::instance().add(std::move(body)); }
void finish_errands() { Errands::instance().finish(); }

}  // namespace rondo
