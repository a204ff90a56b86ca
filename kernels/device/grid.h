// How many blocks a collective's kernel has.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/device/collective.h"

namespace rondo::device {

// For a call whose largest buffer has `bytes` bytes. `multiprocessors`: of the smallest GPU, and
// `ranks_on_it`: most ranks on one GPU, agreed by all ranks, so that all choose the same.
//
// A block waits for the same block of other ranks, so blocks of ranks that share a GPU must all be resident
// at once, or one may wait for another that its own rank's blocks keep out. No launch asks for that; it holds
// because all ranks' blocks together are no more than the multiprocessors, each of which has room for one,
// once other kernels on the GPU have ended. It needs kernels of the ranks to run at the same time: streams of
// one process do, as do processes under MPS; other processes take turns, and a kernel that waits is put aside
// for the next one's.
inline int blocks_for(std::size_t bytes, int multiprocessors, int ranks_on_it) {
  constexpr std::size_t worth_a_block = 16384;  // two vectors of 16 bytes for each of 512 threads
  const std::size_t wanted = std::max<std::size_t>(1, quotient_up(bytes, worth_a_block));
  const int most = std::clamp(multiprocessors / ranks_on_it, 1, most_blocks);
  return static_cast<int>(std::min(wanted, static_cast<std::size_t>(most)));
}

}  // namespace rondo::device
