// Plays a collective in plain numbers, step by step, from the very schedules that the transport runs
// (src/schedule.h), so that people can see what moves where.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/call.h"
#include "src/settings.h"

namespace rondo {

// What one rank holds of one chunk, and what became of it in the step that is shown.
struct HeldChunk {
  std::optional<std::uint64_t> value;
  bool arrived = false;  // changed by what came in this step
  bool whole = false;    // the result: nothing is to be added any more
};

struct Transfer {
  int from, to, chunk;
  std::uint64_t value;
};

struct Frame {
  std::vector<Transfer> transfers;            // that end in this step
  std::vector<std::vector<HeldChunk>> holds;  // [rank][chunk], after them
};

struct Play {
  int ranks, chunks, root;
  std::vector<Frame> frames;  // the first is the start: no transfers yet
  // The right result, added up without any algorithm: [rank][chunk], empty where a rank gets none.
  std::vector<std::vector<std::optional<std::uint64_t>>> expected;
  bool correct;  // the last frame holds just that
};

// In numbers, a digit for each contribution: rank r's chunk c is the digit c + 1 at place r, so that a sum
// shows who is in it. That is readable for so many ranks.
inline constexpr int most_drawn_ranks = 9;

Play play(CallKind kind, Algorithm algorithm, int ranks, int root);

}  // namespace rondo
