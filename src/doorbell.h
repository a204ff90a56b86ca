// A futex in shared memory: how a rank sleeps until a peer has done something for it. std::atomic::wait would
// not do: it is private to a process. A rank that waits for other hosts too polls descriptors, where no futex
// reaches it: it has an alarm beside the bell, an eventfd that its neighbours can write to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "src/fd.h"

namespace rondo {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> waiters;
  std::atomic<std::uint32_t> pollers;  // of the alarm
};

// Wakes who sleeps at the bell. To be called after the change that they wait for was stored with
// memory_order_seq_cst, or before a fence of that order: then either we see the waiter here, or the waiter
// sees the change before it sleeps.
void ring(Doorbell& bell);
// The same for those who poll the alarm beside it.
void sound(const Fd& alarm, Doorbell& bell);

Fd make_alarm();  // throws when there is no descriptor to be had

// Announces a sleeper at some bells. The order is: make a Nap, look once more, then sleep.
class Nap {
 public:
  explicit Nap(std::span<Doorbell* const> bells);
  ~Nap();
  Nap(const Nap&) = delete;
  Nap& operator=(const Nap&) = delete;

  // Returns when a bell rang since the Nap was made, after `most`, or after a signal.
  void sleep(std::chrono::nanoseconds most);

 private:
  struct Watch {
    Doorbell* bell;
    std::uint32_t seen;
  };
  std::vector<Watch> watches_;
};

// Announces a thread that is about to poll an alarm: first a Lookout, then one more look, then the poll,
// which ends at once if the alarm was sounded since.
class Lookout {
 public:
  Lookout(const Fd& alarm, Doorbell& bell);
  ~Lookout() { bell_->pollers.fetch_sub(1, std::memory_order_seq_cst); }
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

 private:
  Doorbell* bell_;
};

}  // namespace rondo
