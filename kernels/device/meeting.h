// How block b of a rank and block b of its peers wait for one another. A rank tells by storing a word in the
// memory of whom it tells, so that waiting is looking at one's own memory. Words carry the number of the
// round and the call's signature: they are never reset, and calls that do not match are found before a byte
// moves, since every call begins with all ranks telling all others that they are there.
#pragma once

#include "kernels/device/collective.h"
#include "kernels/device/system.h"

namespace rondo::device {

class Meeting {
 public:
  RONDO_HOST_DEVICE Meeting(const CollectiveCall& call, Lanes lanes)
      : call_(call), lanes_(lanes), began_(call.timeout_ns == 0 ? 0 : nanoseconds()) {}

  // Tells all peers that this rank has come to a point of a round, and waits until all have. What any thread
  // of any of these blocks wrote before, all their threads then see: barriers hand it to the threads that
  // tell, whose release hands it to those that wait, whose acquire and barrier hand it on. False: the call
  // has failed, for all threads of the block alike.
  RONDO_HOST_DEVICE bool meet(Point point, std::uint64_t round) const {
    lanes_.meet();
    for (int peer = lanes_.thread; peer < call_.size; peer += lanes_.threads)
      if (peer != call_.rank) store_release(&told(peer, point, round)[call_.rank], word(round));
    bool ok = true;
    for (int peer = lanes_.thread; ok && peer < call_.size; peer += lanes_.threads)
      if (peer != call_.rank) ok = wait_for(peer, point, round);
    return !lanes_.any(!ok);
  }

  // Waits until a count that `peer` stores here is at least `least`. Same order and same result.
  RONDO_HOST_DEVICE bool wait_count(std::uint64_t* count, std::uint64_t least, int peer, Point point) const {
    bool ok = true;
    if (lanes_.thread == 0)
      ok = spin(peer, point, static_cast<std::uint32_t>(least), [&](bool& mismatch) {
        mismatch = false;
        return load_acquire(count) >= least;
      });
    return !lanes_.any(!ok);
  }

 private:
  // Two words take turns: who tells of round n + 2 has met this rank in round n + 1, which no longer waits
  // for round n.
  RONDO_HOST_DEVICE std::uint64_t* told(int rank, Point point, std::uint64_t round) const {
    return flags_of(call_, rank, lanes_.block).told[static_cast<int>(point)][round % 2];
  }
  RONDO_HOST_DEVICE std::uint64_t word(std::uint64_t round) const { return round << 32 | call_.signature; }

  RONDO_HOST_DEVICE bool wait_for(int peer, Point point, std::uint64_t round) const {
    std::uint64_t* const told_here = &told(call_.rank, point, round)[peer];
    return spin(peer, point, static_cast<std::uint32_t>(round), [&](bool& mismatch) {
      const std::uint64_t now = load_acquire(told_here);
      mismatch = now != word(round);
      return now >> 32 == word(round) >> 32;
    });
  }

  // `reached` is asked until it says yes; it also tells whether what it found is another call's.
  template <typename Reached>
  RONDO_HOST_DEVICE bool spin(int peer, Point point, std::uint32_t round, Reached reached) const {
    for (unsigned turn = 1;; ++turn) {
      bool mismatch = false;
      if (reached(mismatch)) return !mismatch || fail(FailureKind::mismatch, peer, point, round);
      // The host's words are far away, so they are looked at now and then.
      if (turn % 64 == 0) {
        if (load_relaxed(call_.failure) != 0) return false;
        if (load_relaxed(call_.abort) != 0) return fail(FailureKind::aborted, peer, point, round);
        if (call_.timeout_ns != 0 && nanoseconds() - began_ > call_.timeout_ns)
          return fail(FailureKind::timeout, peer, point, round);
      }
      pause();
    }
  }

  RONDO_HOST_DEVICE bool fail(FailureKind kind, int peer, Point point, std::uint32_t round) const {
    const Failure failure{kind, point, static_cast<std::uint8_t>(lanes_.block),
                          static_cast<std::uint8_t>(peer), round};
    write_first(call_.failure, failure.word());
    return false;
  }

  const CollectiveCall& call_;
  Lanes lanes_;
  std::uint64_t began_;
};

// Books payload that this block has moved to a rank, or from one.
RONDO_HOST_DEVICE inline void count_sent(const CollectiveCall& call, Lanes lanes, int peer,
                                         std::size_t bytes) {
  if (lanes.thread == 0 && peer != call.rank) add_relaxed(&call.sent[peer], bytes);
}
RONDO_HOST_DEVICE inline void count_sent_to_all(const CollectiveCall& call, Lanes lanes, std::size_t bytes) {
  for (int peer = lanes.thread; peer < call.size; peer += lanes.threads)
    if (peer != call.rank) add_relaxed(&call.sent[peer], bytes);
}
RONDO_HOST_DEVICE inline void count_fetched(const CollectiveCall& call, Lanes lanes, int peer,
                                            std::size_t bytes) {
  if (lanes.thread == 0 && peer != call.rank) add_relaxed(&call.fetched[peer], bytes);
}

}  // namespace rondo::device
