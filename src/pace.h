// Which stores are quicker for lines that another core reads next. On some machines ordinary stores are twice
// as quick as streaming ones in one minute and five times slower in the next (docs/performance.md), so that
// only trying tells.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "kernels/reduce.h"

namespace rondo {

// The calls of one kind and size. All ranks make the same calls, hence try at the same time, and what one
// rank measures is what all have done; if they come to different answers that only costs time. Whole calls
// are timed: what streaming costs the writer it may save the reader.
class Pace {
 public:
  // How the next call is to store.
  Stores next() {
    const std::uint64_t turn = calls_++ % calls_between_tries;
    if (turn == 0) best_.fill(std::chrono::nanoseconds::max());
    if (turn < tries) return Stores::ordinary;
    if (turn < 2 * tries) return Stores::streaming;
    return of(Stores::ordinary) <= of(Stores::streaming) ? Stores::ordinary : Stores::streaming;
  }

  void took(Stores stores, std::chrono::nanoseconds time) { of(stores) = std::min(of(stores), time); }

 private:
  static constexpr std::uint64_t tries = 3, calls_between_tries = 1024;

  std::chrono::nanoseconds& of(Stores stores) { return best_[static_cast<std::size_t>(stores)]; }

  std::uint64_t calls_ = 0;
  std::array<std::chrono::nanoseconds, 2> best_{};
};

}  // namespace rondo
