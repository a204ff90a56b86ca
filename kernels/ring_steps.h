// The steps of the ring, one by one, for the CPU (src/schedule.h) and the GPU alike.
//
// At each step a rank takes one chunk: it may receive it from its left neighbour, reduce what came with its
// own input, store the result in its output, and send the result to its right neighbour, in this order. A
// step that does not receive starts from the rank's own input.
#pragma once

#include "kernels/host_device.h"

namespace rondo {

struct Step {
  int chunk;
  bool receive, reduce, store, send;
  friend bool operator==(const Step&, const Step&) = default;
};

// A position that may be up to twice around, in either direction.
RONDO_HOST_DEVICE constexpr int around(int position, int size) { return (position % size + size) % size; }

// Step `hop` of `size`. Chunk c starts at rank c + 1, gathers a contribution at each rank and ends, whole, at
// rank c.
RONDO_HOST_DEVICE constexpr Step reduce_scatter_step(int rank, int size, int hop) {
  const bool first = hop == 0, last = hop == size - 1;
  return {around(rank - 1 - hop, size), !first, !first || last, last, !last};
}

// Step `hop` of `size`. Chunk c starts at rank c and ends at rank c - 1.
RONDO_HOST_DEVICE constexpr Step all_gather_step(int rank, int size, int hop) {
  const bool first = hop == 0, last = hop == size - 1;
  return {around(rank - hop, size), !first, false, true, !last};
}

// Step `hop` of 2 size - 1: a reduce-scatter whose last step is the first of an all-gather.
RONDO_HOST_DEVICE constexpr Step all_reduce_step(int rank, int size, int hop) {
  if (hop >= size) return all_gather_step(rank, size, hop - size + 1);
  Step step = reduce_scatter_step(rank, size, hop);
  if (hop == size - 1) step.send = all_gather_step(rank, size, 0).send;
  return step;
}

// The one step of a ring that is cut open before root.
RONDO_HOST_DEVICE constexpr Step broadcast_step(int rank, int size, int root) {
  const int distance = around(rank - root, size);
  return {0, distance != 0, false, true, distance != size - 1};
}

}  // namespace rondo
