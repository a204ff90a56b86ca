// All-reduce in one trip: every rank stages its whole input, and reads and adds up everybody's. More bytes
// than staged.h, and one wait less: for small calls.
#pragma once

#include "kernels/device/rounds.h"

namespace rondo::device {

class OneShot {
 public:
  RONDO_HOST_DEVICE OneShot(const CollectiveCall& call, Lanes lanes)
      : call_(call),
        lanes_(lanes),
        part_(part_of({0, call.count * size_of(call.type)}, lanes.block, lanes.blocks)) {}

  RONDO_HOST_DEVICE std::uint64_t rounds() const {
    return quotient_up(part_.bytes, slots(call_.rank, 0).slice_bytes());
  }
  RONDO_HOST_DEVICE bool gathers() const { return false; }

  RONDO_HOST_DEVICE void fill(std::uint64_t round, std::uint64_t index) const {
    const Run slice = slice_at(index);
    copy(lanes_, call_.input + slice.begin, slots(call_.rank, round).at(0, slice), slice.bytes);
    count_sent_to_all(call_, lanes_, slice.bytes);
  }

  RONDO_HOST_DEVICE void take(std::uint64_t round, std::uint64_t index) const {
    const Run slice = slice_at(index);
    ReduceWork work;
    begin_reduction(work, call_, slice);
    for (int rank = 0; rank < call_.size; ++rank)
      work.sources[work.source_count++] =
          rank == call_.rank ? call_.input + slice.begin : slots(rank, round).at(0, slice);
    work.targets[work.target_count++] = call_.output + slice.begin;
    reduce_strided(work, lanes_.share());
  }

  RONDO_HOST_DEVICE void gather(std::uint64_t, std::uint64_t) const {}

 private:
  RONDO_HOST_DEVICE Slots slots(int rank, std::uint64_t round) const {
    return area_slots(call_, rank, lanes_.block, round, 1);
  }
  RONDO_HOST_DEVICE Run slice_at(std::uint64_t index) const {
    return slice_of(part_, index, slots(call_.rank, 0).slice_bytes());
  }

  const CollectiveCall& call_;
  Lanes lanes_;
  Run part_;
};

}  // namespace rondo::device
