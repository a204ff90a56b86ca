// A futex in shared memory: how a rank sleeps until a peer has done something for it. std::atomic::wait would
// not do: it is private to a process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> waiters;
};

// Wakes who sleeps at the bell. To be called after the change that they wait for was stored with
// memory_order_seq_cst, or before a fence of that order: then either we see the waiter here, or the waiter
// sees the change before it sleeps.
void ring(Doorbell& bell);

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

}  // namespace rondo
