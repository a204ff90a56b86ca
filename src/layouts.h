// How the pieces of a call lie in those of its buffers that other ranks touch.
#pragma once

#include "src/call.h"

namespace rondo {

// From the first to the last byte of a buffer in pieces; nothing where all pieces are empty.
Extent span_of(const std::vector<Extents>& chunks);

// How the pieces lie in their span: ranks with the same layout find their way in one another's memory. 0
// where they lie one after another, which for the same sizes is one layout.
std::uint64_t layout_of(const std::vector<Extents>& chunks, const std::byte* begin);

// Which of rank `rank`'s buffers others read or write, in a call on windows.
struct Needs {
  bool input, output;
};
Needs needs_of(CallKind kind, int root, int rank);

// Whether what ranks tell of the buffers that are needed `fits` what the first of them tells:
// fits(one's input, the first's), the same for outputs. of_rank(rank): an input and an output.
template <typename OfRank, typename Fits>
bool all_fit(CallKind kind, int root, int size, OfRank of_rank, Fits fits) {
  int first = -1;
  for (int rank = 0; rank < size; ++rank) {
    const Needs needs = needs_of(kind, root, rank);
    if (!needs.input && !needs.output) continue;
    if (first < 0) first = rank;
    if (needs.input && !fits(of_rank(rank).input, of_rank(first).input)) return false;
    if (needs.output && !fits(of_rank(rank).output, of_rank(first).output)) return false;
  }
  return true;
}

}  // namespace rondo
