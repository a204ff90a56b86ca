// While a rank, or a device's stream for it, moves its part of a call on windows it stores to its peers'
// memory. A rank whose call has failed gives its buffers back to its caller: it must not while a peer still
// stores there.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "src/process.h"
#include "src/segment.h"

namespace rondo {

// False: the communicator has failed, or is about to, and peers may have other things in their memory
// already.
inline bool may_move(const Segment& segment) {
  return segment.failure().state.load(std::memory_order_seq_cst) == Failure::none;
}

// In this rank's lines, for as long as it lives: this rank touches its peers' buffers.
class Moving {
 public:
  Moving(const Segment& segment, int rank) : segment_(segment), mark_(segment.rank(rank).moving) {
    // Sequentially consistent, as the look at the failure that follows: either this rank sees the failure, or
    // who has seen it sees this mark.
    mark_.store(1, std::memory_order_seq_cst);
  }
  // Releases what was stored to who waits for the mark to go.
  ~Moving() { mark_.store(0, std::memory_order_release); }
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;

  bool allowed() const { return may_move(segment_); }

 private:
  const Segment& segment_;
  std::atomic<std::uint32_t>& mark_;
};

// A peer that was stopped in the middle of its part would never be through.
inline constexpr std::chrono::milliseconds most_wait_for_moving{1000};

// After a failure has been told to rank `self`: waits until no peer touches its buffers. peers: by rank, null
// for one that cannot be watched. False when one still does after most_wait_for_moving.
bool wait_for_moving(const Segment& segment, int self, std::span<const std::shared_ptr<PeerProcess>> peers);

}  // namespace rondo
