// A point in time by which something must have happened, or never.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondo {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline now() { return Deadline(Clock::now()); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  // A timeout of zero means never, as in every setting of Rondo.
  static Deadline after(std::chrono::nanoseconds timeout) {
    return timeout.count() == 0 ? never() : Deadline(Clock::now() + timeout);
  }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }

  // The same, so much later.
  Deadline extended(std::chrono::nanoseconds by) const { return is_never() ? *this : Deadline(at_ + by); }

  // Time left, at least zero and at most `limit`.
  std::chrono::nanoseconds left(std::chrono::nanoseconds limit) const {
    if (is_never()) return limit;
    return std::clamp<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0), limit);
  }

  friend Deadline earlier(Deadline a, Deadline b) { return a.at_ < b.at_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace rondo
