// The ring, through a queue in each rank's memory that its left neighbour writes: what a rank sends it puts
// straight there, reduced on the way. The steps, and so the order of summation and its bits, are those of
// src/ring.cc.
#pragma once

#include "kernels/device/rounds.h"
#include "kernels/ring_steps.h"

namespace rondo::device {

class Ring {
 public:
  RONDO_HOST_DEVICE Ring(const CollectiveCall& call, Lanes lanes)
      : call_(call),
        lanes_(lanes),
        left_(peer_at(call, call.size - 1)),
        right_(peer_at(call, 1)),
        flags_(flags_of(call, call.rank, lanes.block)),
        from_left_(queue_slots(call, call.rank, lanes.block)),
        to_right_(queue_slots(call, right_, lanes.block)),
        sent_(flags_.state.sent),
        received_(flags_.state.received) {}

  // False: the call has failed.
  RONDO_HOST_DEVICE bool run(const Meeting& meeting) {
    const std::uint64_t slices = most_slices(call_, lanes_, from_left_.slice_bytes());
    for (std::uint64_t index = 0; index < slices; ++index)
      for (int hop = 0; hop < step_count(); ++hop)
        if (!take(meeting, hop, index)) return false;
    if (lanes_.thread == 0) {
      flags_.state.sent = sent_;
      flags_.state.received = received_;
    }
    return true;
  }

 private:
  RONDO_HOST_DEVICE int step_count() const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        return 2 * call_.size - 1;
      case CollectiveKind::all_gather:
      case CollectiveKind::reduce_scatter:
        return call_.size;
      case CollectiveKind::broadcast:
      case CollectiveKind::all_to_all:
        break;
    }
    return 1;
  }
  RONDO_HOST_DEVICE Step step_at(int hop) const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        return all_reduce_step(call_.rank, call_.size, hop);
      case CollectiveKind::all_gather:
        return all_gather_step(call_.rank, call_.size, hop);
      case CollectiveKind::reduce_scatter:
        return reduce_scatter_step(call_.rank, call_.size, hop);
      case CollectiveKind::broadcast:
      case CollectiveKind::all_to_all:
        break;
    }
    return broadcast_step(call_.rank, call_.size, call_.root);
  }

  // One step with one slice of its chunk. A chunk with no such slice is passed over by all ranks.
  RONDO_HOST_DEVICE bool take(const Meeting& meeting, int hop, std::uint64_t index) {
    const Step step = step_at(hop);
    const Run slice = slice_of(part_of(chunk_of(call_, step.chunk), lanes_.block, lanes_.blocks), index,
                               from_left_.slice_bytes());
    if (slice.bytes == 0) return true;
    if (step.receive && !meeting.wait_count(&flags_.arrived, received_ + 1, left_, Point::filled))
      return false;
    // Room in the right neighbour's queue: all but the last few slices have been taken from it.
    if (step.send && !meeting.wait_count(&flags_.freed, room_needed(), right_, Point::finished)) return false;
    move(step, hop, slice);
    tell(step, slice.bytes);
    return true;
  }

  RONDO_HOST_DEVICE std::uint64_t room_needed() const {
    return sent_ < queue_slices ? 0 : sent_ + 1 - queue_slices;
  }

  RONDO_HOST_DEVICE void move(const Step& step, int hop, Run slice) const {
    ReduceWork work;
    begin_reduction(work, call_, slice);
    if (step.receive) work.sources[work.source_count++] = from_left_.at(slot_of(received_), slice);
    if (step.reduce || !step.receive) work.sources[work.source_count++] = own_input(slice);
    if (step.store) work.targets[work.target_count++] = own_output(slice);
    if (step.send) work.targets[work.target_count++] = to_right_.at(slot_of(sent_), slice);
    if (!step.reduce) return pass_on(work, slice.bytes);
    // What comes from the chunk's first rank is that rank's bare input.
    work.first_is_partial = step.receive && hop > 1;
    work.complete = step.store;
    reduce_strided(work, lanes_.share());
  }

  RONDO_HOST_DEVICE void pass_on(ReduceWork& work, std::size_t bytes) const {
    int count = 0;
    for (int t = 0; t < work.target_count; ++t)
      if (work.targets[t] != work.sources[0]) work.targets[count++] = work.targets[t];
    copy_strided(work.sources[0], work.targets, count, bytes, lanes_.share());
  }

  // Whoever waits for a slice sees it whole, and who waits for room, that it has been read: the barrier comes
  // before the release.
  RONDO_HOST_DEVICE void tell(const Step& step, std::size_t bytes) {
    lanes_.meet();
    if (step.receive) ++received_;
    if (step.send) ++sent_;
    if (lanes_.thread != 0) return;
    if (step.receive) store_release(&flags_of(call_, left_, lanes_.block).freed, received_);
    if (!step.send) return;
    count_sent(call_, lanes_, right_, bytes);
    store_release(&flags_of(call_, right_, lanes_.block).arrived, sent_);
  }

  // Of an all-gather the input is this rank's chunk alone; of a reduce-scatter the output.
  RONDO_HOST_DEVICE const std::byte* own_input(Run slice) const {
    const bool one_chunk = call_.kind == CollectiveKind::all_gather;
    return call_.input + slice.begin - (one_chunk ? chunk_of(call_, call_.rank).begin : 0);
  }
  RONDO_HOST_DEVICE std::byte* own_output(Run slice) const {
    const bool one_chunk = call_.kind == CollectiveKind::reduce_scatter;
    return call_.output + slice.begin - (one_chunk ? chunk_of(call_, call_.rank).begin : 0);
  }

  RONDO_HOST_DEVICE static int slot_of(std::uint64_t number) {
    return static_cast<int>(number % queue_slices);
  }

  const CollectiveCall& call_;
  Lanes lanes_;
  int left_, right_;
  BlockFlags& flags_;
  Slots from_left_, to_right_;
  std::uint64_t sent_, received_;
};

}  // namespace rondo::device
