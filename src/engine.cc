#include "src/engine.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>

#include "src/patience.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

// Calls under way that nobody may be waiting for.
class Registry {
 public:
  // Never destroyed: the progress thread may outlive static objects. A forked child begins with a new one:
  // the calls are its parent's, and so is the thread.
  static Registry& instance() {
    static const bool first = [] {
      current() = new Registry;
      pthread_atfork(nullptr, nullptr, [] { current() = new Registry; });
      return true;
    }();
    (void)first;
    return *current();
  }

  void need_thread(void (*body)()) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_thread_, true)) std::thread(body).detach();
  }

  void add(const std::shared_ptr<PendingCall>& call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    count_.store(calls_.size(), std::memory_order_release);
    added_.notify_one();
  }

  void add_listener(Communicator& communicator, void (*body)()) {
    const std::lock_guard lock(listeners_mutex_);
    if (!has_listening_thread_) std::thread(body).detach();
    has_listening_thread_ = true;
    listeners_.push_back(&communicator);
    listener_added_.notify_one();
  }

  // Returns when nobody uses it here any more.
  void remove_listener(Communicator& communicator) {
    const std::lock_guard lock(listeners_mutex_);
    std::erase(listeners_, &communicator);
  }

  void listen() {
    std::unique_lock lock(listeners_mutex_);
    listener_added_.wait(lock, [&] { return !listeners_.empty(); });
    for (Communicator* one : listeners_) one->listen();
  }

  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

  // The communicators of all calls that are not done.
  std::vector<std::shared_ptr<Communicator>> communicators() {
    const std::lock_guard lock(mutex_);
    std::erase_if(calls_, [](const auto& call) { return call->done.load(std::memory_order_acquire); });
    count_.store(calls_.size(), std::memory_order_release);
    std::vector<std::shared_ptr<Communicator>> all;
    for (const auto& call : calls_)
      if (std::find(all.begin(), all.end(), call->communicator) == all.end())
        all.push_back(call->communicator);
    return all;
  }

  void wait_for_work() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return !calls_.empty(); });
  }

 private:
  static std::atomic<Registry*>& current() {
    static std::atomic<Registry*> registry;
    return registry;
  }

  std::mutex mutex_;
  std::condition_variable added_;
  bool has_thread_ = false;
  std::vector<std::shared_ptr<PendingCall>> calls_;
  std::atomic<std::size_t> count_{0};

  std::mutex listeners_mutex_;
  std::condition_variable listener_added_;
  bool has_listening_thread_ = false;
  std::vector<Communicator*> listeners_;
};

// Drives communicators until `finished` says so.
class Driver {
 public:
  using Communicators = std::vector<std::shared_ptr<Communicator>>;

  explicit Driver(Communicators own) : own_(std::move(own)), patience_(any_oversubscribed()) {}

  template <typename Finished>
  void drive(Finished finished) {
    for (const auto& communicator : own_) communicator->need_own_process();
    while (true) {
      if (!Registry::instance().empty()) others_ = Registry::instance().communicators();
      const bool moved = progress();
      if (finished()) return;
      check_health();
      if (moved)
        patience_.reset();
      else if (!patience_.worn_out())
        patience_.relax();
      else
        sleep();
    }
  }

 private:
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& communicator : own_) visit(*communicator);
    for (const auto& communicator : others_)
      if (std::find(own_.begin(), own_.end(), communicator) == own_.end()) visit(*communicator);
  }

  // The progress thread has no communicator of its own: it is one thread more than there are ranks.
  bool any_oversubscribed() const {
    return own_.empty() ||
           std::any_of(own_.begin(), own_.end(), [](const auto& one) { return one->oversubscribed(); });
  }

  bool progress(Communicator::IfBusy if_busy = Communicator::IfBusy::skip) {
    bool moved = false;
    each([&](Communicator& one) { moved |= one.progress(if_busy); });
    return moved;
  }

  // Deadlines and deaths, also while something else keeps us busy: now and then, for it costs system calls.
  void check_health() {
    if (++turns_ % turns_between_looks != 0) return;
    const auto now = Deadline::Clock::now();
    if (now < next_look_) return;
    next_look_ = now + time_between_looks;
    each([&](Communicator& one) { one.check_health(); });
  }

  void sleep() {
    std::vector<Doorbell*> bells;
    std::deque<Lookout> lookouts;  // where ranks of other hosts are waited for too
    // New work in another thread rings no bell of ours: look again soon while others' calls are on our hands.
    std::chrono::nanoseconds most = others_.empty() ? std::chrono::nanoseconds(50ms) : 1ms;
    each([&](Communicator& one) {
      if (one.network_descriptor() < 0)
        bells.push_back(&one.bell());
      else
        lookouts.emplace_back(one.alarm(), one.bell());
      most = std::min(most, one.patience());
    });
    if (bells.empty() && lookouts.empty()) return;
    {
      Nap nap(bells);
      // Waits for a thread that is busy here: it may have looked before the nap was announced, and then
      // leave.
      if (progress(Communicator::IfBusy::wait)) return patience_.reset();
      if (lookouts.empty())
        nap.sleep(most);
      else
        poll_networks(bells.empty() ? most : std::min<std::chrono::nanoseconds>(most, time_between_bells));
    }
    lookouts.clear();
    others_.clear();                   // after the nap: we may be the last to hold the bells' memory
    turns_ = turns_between_looks - 1;  // look now
  }

  // For those communicators that span hosts. The bells of the others cannot wake us from there.
  void poll_networks(std::chrono::nanoseconds most) const {
    std::vector<pollfd> entries;
    bool something_to_do = false;
    each([&](Communicator& one) {
      if (one.network_descriptor() < 0) return;
      entries.push_back({one.network_descriptor(), POLLIN, 0});
      entries.push_back({one.alarm().get(), POLLIN, 0});
      something_to_do |= !one.arm_network();
    });
    const timespec time{0, most.count()};
    if (!something_to_do) ::ppoll(entries.data(), entries.size(), &time, nullptr);
  }

  static constexpr unsigned turns_between_looks = 256;
  static constexpr std::chrono::nanoseconds time_between_bells = 500us;
  static constexpr auto time_between_looks = 10ms;

  Communicators own_, others_;
  Patience patience_;
  unsigned turns_ = 0;
  Deadline::Clock::time_point next_look_{};
};

bool done(const PendingCall& call) { return call.done.load(std::memory_order_acquire); }

}  // namespace

void wait_for(PendingCall& call) {
  if (!done(call)) Driver({call.communicator}).drive([&] { return done(call); });
  if (call.error) throw Error(*call.error);
}

void wait_for_all(std::span<const std::shared_ptr<PendingCall>> calls) {
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (const auto& call : calls)
    if (std::find(communicators.begin(), communicators.end(), call->communicator) == communicators.end())
      communicators.push_back(call->communicator);
  Driver(std::move(communicators)).drive([&] {
    return std::all_of(calls.begin(), calls.end(), [](const auto& call) { return done(*call); });
  });
  for (const auto& call : calls)
    if (call->error) throw Error(*call->error);
}

void wait_until_idle(const std::shared_ptr<Communicator>& communicator) {
  Driver({communicator}).drive([&] { return communicator->idle(); });
}

void keep_going(const std::shared_ptr<PendingCall>& call) { Registry::instance().add(call); }

void keep_listening(Communicator& communicator) {
  Registry::instance().add_listener(communicator, [] {
    constexpr auto time_between = 10ms;
    while (true) {
      std::this_thread::sleep_for(time_between);
      Registry::instance().listen();
    }
  });
}

void stop_listening(Communicator& communicator) { Registry::instance().remove_listener(communicator); }

void start_progress_thread() {
  Registry::instance().need_thread([] {
    while (true) {
      Registry::instance().wait_for_work();
      Driver({}).drive([] { return Registry::instance().communicators().empty(); });
    }
  });
}

}  // namespace rondo
