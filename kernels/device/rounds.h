// A call in rounds through the staging areas: what takes more room than an area has goes through it slice by
// slice.
#pragma once

#include "kernels/device/meeting.h"

namespace rondo::device {

// Runs the rounds of one block. `Moves` says what is moved, and in how many rounds:
//   fill    puts what peers need in this rank's area
//   take    reads from all areas, once all have filled
//   gather  reads what takers have put in theirs, if `gathers`, once all have taken
// A round has the place of that two rounds before, in this call or an earlier one. Peers have read that: they
// have told of the round in between since.
template <typename Moves>
RONDO_HOST_DEVICE void run_rounds(const CollectiveCall& call, Lanes lanes, const Moves& moves) {
  const Meeting meeting(call, lanes);
  BlockState& state = flags_of(call, call.rank, lanes.block).state;
  const std::uint64_t before = state.rounds;
  // At least one: calls of no bytes are compared too.
  const std::uint64_t rounds = moves.rounds() == 0 ? 1 : moves.rounds();
  for (std::uint64_t index = 0; index < rounds; ++index) {
    const std::uint64_t round = before + 1 + index;
    moves.fill(round, index);
    if (!meeting.meet(Point::filled, round)) return;
    moves.take(round, index);
    if (!moves.gathers()) continue;
    if (!meeting.meet(Point::reduced, round)) return;
    moves.gather(round, index);
  }
  if (lanes.thread == 0) state.rounds = before + rounds;
}

// One round in which nothing is staged: `move` is called once all ranks have come to the call. `Last::meet`:
// and the call ends when all have moved.
enum class Last { meet, go };
template <typename Move>
RONDO_HOST_DEVICE void run_round(const CollectiveCall& call, Lanes lanes, Last last, const Move& move) {
  const Meeting meeting(call, lanes);
  BlockState& state = flags_of(call, call.rank, lanes.block).state;
  const std::uint64_t round = state.rounds + 1;
  if (!meeting.meet(Point::filled, round) || !move(meeting)) return;
  if (last == Last::meet && !meeting.meet(Point::finished, round)) return;
  if (lanes.thread == 0) state.rounds = round;
}

// A copy by all threads of a block. Nothing is done where a buffer is copied to itself.
RONDO_HOST_DEVICE inline void copy(Lanes lanes, const std::byte* from, std::byte* to, std::size_t bytes) {
  if (from != to) copy_strided(from, &to, 1, bytes, lanes.share());
}

// The rank `distance` further on: everybody begins with a neighbour, so that no rank is everybody's first.
RONDO_HOST_DEVICE inline int peer_at(const CollectiveCall& call, int distance) {
  return (call.rank + distance) % call.size;
}

}  // namespace rondo::device
