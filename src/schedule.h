// Ring schedules as data: what one rank does with which chunk, step after step. Pure functions of rank and
// size.
//
// At each step a rank takes one chunk: it may receive it from its left neighbour, reduce what came with its
// own input, store the result in its output, and send the result to its right neighbour, in this order. A
// step that does not receive starts from the rank's own input.
#pragma once

#include <vector>

namespace rondo {

struct Step {
  int chunk;
  bool receive, reduce, store, send;
  friend bool operator==(const Step&, const Step&) = default;
};

// Chunk c starts at rank c + 1, gathers a contribution at each rank and ends, whole, at rank c: N - 1 hops.
std::vector<Step> ring_reduce_scatter(int rank, int size);
// Chunk c starts at rank c and ends at rank c - 1: N - 1 hops.
std::vector<Step> ring_all_gather(int rank, int size);
// A reduce-scatter whose last step is the first of an all-gather: 2 (N - 1) hops.
std::vector<Step> ring_all_reduce(int rank, int size);
// The ring cut open before root: one chunk, N - 1 hops.
std::vector<Step> ring_broadcast(int rank, int size, int root);
// The ring cut open after root: one chunk, which ends at root.
std::vector<Step> ring_reduce(int rank, int size, int root);

}  // namespace rondo
