// Calls through staging areas, as src/staged.cc makes them on the CPU: of an all-reduce each rank stages the
// others' chunks, adds up its own from all areas, and hands the result on by its area.
#pragma once

#include "kernels/device/rounds.h"

namespace rondo::device {

class Staged {
 public:
  RONDO_HOST_DEVICE Staged(const CollectiveCall& call, Lanes lanes)
      : call_(call), lanes_(lanes), slice_bytes_(slots(call.rank, 0).slice_bytes()) {}

  RONDO_HOST_DEVICE std::uint64_t rounds() const { return most_slices(call_, lanes_, slice_bytes_); }
  RONDO_HOST_DEVICE bool gathers() const { return call_.kind == CollectiveKind::all_reduce; }

  RONDO_HOST_DEVICE void fill(std::uint64_t round, std::uint64_t index) const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_to_all:
        return fill_for_each(round, index);
      case CollectiveKind::all_gather:
        return fill_for_all(round, slice_at(call_.rank, index), chunk_of(call_, call_.rank).begin);
      case CollectiveKind::broadcast:
        if (call_.rank == call_.root) fill_for_all(round, slice_at(0, index), 0);
        return;
    }
  }

  RONDO_HOST_DEVICE void take(std::uint64_t round, std::uint64_t index) const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
        return reduce(round, slice_at(call_.rank, index));
      case CollectiveKind::all_gather:
        return gather(round, index);
      case CollectiveKind::broadcast:
        if (call_.rank != call_.root) fetch(call_.root, 0, round, slice_at(0, index), slice_at(0, index));
        return;
      case CollectiveKind::all_to_all: {
        const Run own = slice_at(call_.rank, index);
        copy(lanes_, call_.input + own.begin, call_.output + own.begin, own.bytes);
        for (int distance = 1; distance < call_.size; ++distance) {
          const int peer = peer_at(call_, distance);
          fetch(peer, call_.rank, round, own, slice_at(peer, index));
        }
        return;
      }
    }
  }

  // The results of an all-reduce, or the inputs of an all-gather.
  RONDO_HOST_DEVICE void gather(std::uint64_t round, std::uint64_t index) const {
    for (int distance = 1; distance < call_.size; ++distance) {
      const int peer = peer_at(call_, distance);
      const Run slice = slice_at(peer, index);
      fetch(peer, slot_count() == 1 ? 0 : peer, round, slice, slice);
    }
  }

 private:
  RONDO_HOST_DEVICE void fill_for_each(std::uint64_t round, std::uint64_t index) const {
    const Slots mine = slots(call_.rank, round);
    for (int distance = 1; distance < call_.size; ++distance) {
      const int peer = peer_at(call_, distance);
      const Run slice = slice_at(peer, index);
      copy(lanes_, call_.input + slice.begin, mine.at(peer, slice), slice.bytes);
      count_sent(call_, lanes_, peer, slice.bytes);
    }
  }

  // To the area and to its place in the output, in one pass. The input begins at byte `input_begin` of the
  // output.
  RONDO_HOST_DEVICE void fill_for_all(std::uint64_t round, Run slice, std::size_t input_begin) const {
    const std::byte* const source = call_.input + (slice.begin - input_begin);
    std::byte* const targets[2] = {slots(call_.rank, round).at(0, slice), call_.output + slice.begin};
    copy_strided(source, targets, targets[1] == source ? 1 : 2, slice.bytes, lanes_.share());
    count_sent_to_all(call_, lanes_, slice.bytes);
  }

  RONDO_HOST_DEVICE void reduce(std::uint64_t round, Run slice) const {
    ReduceWork work;
    begin_reduction(work, call_, slice);
    for (int rank = 0; rank < call_.size; ++rank)
      work.sources[work.source_count++] =
          rank == call_.rank ? call_.input + slice.begin : slots(rank, round).at(call_.rank, slice);
    if (call_.kind == CollectiveKind::all_reduce) {
      work.targets[work.target_count++] = call_.output + slice.begin;
      work.targets[work.target_count++] = slots(call_.rank, round).at(call_.rank, slice);
      count_sent_to_all(call_, lanes_, slice.bytes);
    } else {
      work.targets[work.target_count++] = call_.output + slice.begin - chunk_of(call_, call_.rank).begin;
    }
    reduce_strided(work, lanes_.share());
  }

  // From slot `index` of a peer's area, where `staged` is what the peer has put there.
  RONDO_HOST_DEVICE void fetch(int peer, int index, std::uint64_t round, Run staged, Run to) const {
    copy(lanes_, slots(peer, round).at(index, staged), call_.output + to.begin, to.bytes);
  }

  // What one rank has for all takes one slot; what it has for each, one for each.
  RONDO_HOST_DEVICE int slot_count() const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_to_all:
        return call_.size;
      case CollectiveKind::all_gather:
      case CollectiveKind::broadcast:
        break;
    }
    return 1;
  }
  RONDO_HOST_DEVICE Slots slots(int rank, std::uint64_t round) const {
    return area_slots(call_, rank, lanes_.block, round, slot_count());
  }
  RONDO_HOST_DEVICE Run slice_at(int chunk, std::uint64_t index) const {
    return slice_of(part_of(chunk_of(call_, chunk), lanes_.block, lanes_.blocks), index, slice_bytes_);
  }

  const CollectiveCall& call_;
  Lanes lanes_;
  std::size_t slice_bytes_;
};

}  // namespace rondo::device
