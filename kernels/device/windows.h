// Calls on windows, as src/windows.cc makes them on the CPU: each rank reads from and stores to the users'
// memory of all ranks at once, and no byte is copied on the way.
#pragma once

#include "kernels/device/rounds.h"

namespace rondo::device {

class Windows {
 public:
  RONDO_HOST_DEVICE Windows(const CollectiveCall& call, Lanes lanes)
      : call_(call), lanes_(lanes), own_(part_of(chunk_of(call, call.rank), lanes.block, lanes.blocks)) {}

  RONDO_HOST_DEVICE void move() const {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce_scatter:
        return reduce();
      case CollectiveKind::all_gather:
        return hand_to_all();
      case CollectiveKind::broadcast:
        return fetch(call_.root, own_, own_);
      case CollectiveKind::all_to_all:
        for (int distance = 0; distance < call_.size; ++distance) {
          const int peer = peer_at(call_, distance);
          fetch(peer, own_, part_of(chunk_of(call_, peer), lanes_.block, lanes_.blocks));
        }
        return;
    }
  }

 private:
  // This rank's chunk, from all inputs to all outputs, or to its own.
  RONDO_HOST_DEVICE void reduce() const {
    ReduceWork work;
    begin_reduction(work, call_, own_);
    for (int rank = 0; rank < call_.size; ++rank) {
      work.sources[work.source_count++] = call_.peers[rank].input + own_.begin;
      count_fetched(call_, lanes_, rank, own_.bytes);
    }
    if (call_.kind == CollectiveKind::all_reduce) {
      for (int rank = 0; rank < call_.size; ++rank)
        work.targets[work.target_count++] = call_.peers[rank].output + own_.begin;
      count_sent_to_all(call_, lanes_, own_.bytes);
    } else {
      work.targets[work.target_count++] = call_.output + own_.begin - chunk_of(call_, call_.rank).begin;
    }
    reduce_strided(work, lanes_.share());
  }

  RONDO_HOST_DEVICE void hand_to_all() const {
    const std::byte* const source = call_.input + own_.begin - chunk_of(call_, call_.rank).begin;
    std::byte* targets[most_ranks];
    int count = 0;
    for (int rank = 0; rank < call_.size; ++rank) {
      std::byte* const target = call_.peers[rank].output + own_.begin;
      if (target != source) targets[count++] = target;
    }
    copy_strided(source, targets, count, own_.bytes, lanes_.share());
    count_sent_to_all(call_, lanes_, own_.bytes);
  }

  RONDO_HOST_DEVICE void fetch(int peer, Run from, Run to) const {
    copy(lanes_, call_.peers[peer].input + from.begin, call_.output + to.begin, to.bytes);
    count_fetched(call_, lanes_, peer, to.bytes);
  }

  const CollectiveCall& call_;
  Lanes lanes_;
  Run own_;
};

}  // namespace rondo::device
