// Where ranks of one host hand one another parts of memory that peers cannot map: for each rank the segment
// has an area of two rounds, each with room for a slice of every rank's chunk. The places change hands by
// turns: who writes to one has read it two rounds before, hence has its lines in its cache. Taking lines back
// that others have read takes two to three times as long (docs/performance.md).
#pragma once

#include <functional>

#include "src/call.h"
#include "src/segment.h"

namespace rondo {

class Staging {
 public:
  // How far a rank is. The counts go on from call to call: staged calls have the same rounds on all ranks.
  enum class Point { filled, reduced, finished };

  // Whole pages of at least `bytes`, with room for a cache line of each chunk; 0 for 0.
  static std::size_t area_bytes(std::size_t bytes, int size);

  Staging(const Segment& segment, int rank, int size, std::function<void()> wake);

  bool exists() const { return !segment_.staging(rank_).empty(); }
  // Most bytes of one chunk that a round carries: a multiple of a cache line.
  std::size_t slice_bytes() const;
  // How a chunk goes: in so many rounds of so many bytes, the last of what is left.
  struct Rounds {
    std::uint64_t count;
    std::size_t bytes;
  };
  Rounds rounds_of(std::size_t chunk_bytes) const { return equal_rounds(chunk_bytes, slice_bytes()); }
  // As few as can be of at most `most_bytes`, a multiple of a cache line, as equal as whole lines can be. A
  // place that a short round left alone would be written next by who wrote it before, not by who has read it.
  static Rounds equal_rounds(std::size_t chunk_bytes, std::size_t most_bytes);
  // Where rank `from` stages a slice for rank `to`, in round `round` since the communicator began; one that
  // is for all where both are the same.
  std::byte* slice(int from, int to, std::uint64_t round) const;

  // Rounds that all calls so far had.
  std::uint64_t rounds() const { return rounds_; }
  void add_rounds(std::uint64_t rounds) { rounds_ += rounds; }

  // All ranks have made a call: so they have finished those before it.
  void all_have_met() { finished_by_all_ = rounds_; }
  // Whether round number rounds() can be filled before the ranks meet in the call that it belongs to.
  bool can_fill_ahead() const;

  // This rank has come to a point of a round, in which some wait for it or nobody does; whether all ranks
  // have.
  void reach(Point point, std::uint64_t round) const;
  void reach_quietly(Point point, std::uint64_t round) const;
  bool all_reached(Point point, std::uint64_t round) const;

  // Takes this rank's area now, so that shortage of memory is an Error and not a SIGBUS.
  void reserve();

 private:
  std::atomic<std::uint64_t>& count_of(int rank, Point point) const;

  const Segment& segment_;
  int rank_, size_;
  std::function<void()> wake_;  // sleeping peers, after a count was stored
  std::uint64_t rounds_, finished_by_all_;
  bool reserved_ = false;
};

}  // namespace rondo
