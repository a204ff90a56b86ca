// Ring schedules as data: what one rank does with which chunk, step after step. Pure functions of rank and
// size. kernels/ring_steps.h says what a step is.
#pragma once

#include <vector>

#include "kernels/ring_steps.h"

namespace rondo {

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
