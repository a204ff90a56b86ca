// What code needs of the machine that runs it: words in memory that several GPUs, processes and the host
// share, a clock, and something to do while waiting. Everything about memory order between ranks is here and
// in meeting.h.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

#if !defined(__CUDA_ARCH__)
#include <atomic>
#include <chrono>
#include <thread>
#endif

namespace rondo::device {

// Whoever loads this value, or a later one, by load_acquire, sees what this thread wrote before, and what
// others had written and handed to it by a barrier.
RONDO_HOST_DEVICE inline void store_release(std::uint64_t* word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  std::atomic_ref(*word).store(value, std::memory_order_release);
#endif
}
RONDO_HOST_DEVICE inline std::uint64_t load_acquire(std::uint64_t* word) {
#if defined(__CUDA_ARCH__)
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref(*word).load(std::memory_order_acquire);
#endif
}

// For words that stand for themselves.
RONDO_HOST_DEVICE inline std::uint64_t load_relaxed(std::uint64_t* word) {
#if defined(__CUDA_ARCH__)
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref(*word).load(std::memory_order_relaxed);
#endif
}
RONDO_HOST_DEVICE inline void add_relaxed(std::uint64_t* word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.relaxed.gpu.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  std::atomic_ref(*word).fetch_add(value, std::memory_order_relaxed);
#endif
}

// Writes where nothing but 0 was: the first one stays.
RONDO_HOST_DEVICE inline void write_first(std::uint64_t* word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicCAS_system(reinterpret_cast<unsigned long long*>(word), 0ull, static_cast<unsigned long long>(value));
#else
  std::uint64_t nothing = 0;
  std::atomic_ref(*word).compare_exchange_strong(nothing, value, std::memory_order_relaxed);
#endif
}

// Since some fixed moment.
RONDO_HOST_DEVICE inline std::uint64_t nanoseconds() {
#if defined(__CUDA_ARCH__)
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
#endif
}

RONDO_HOST_DEVICE inline void pause() {
#if defined(__CUDA_ARCH__)
  __nanosleep(20);
#else
  std::this_thread::yield();
#endif
}

}  // namespace rondo::device
