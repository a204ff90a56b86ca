// One thread's place in a kernel. The CPU runs the same code with one thread a block, and the blocks of a
// rank one after another: blocks of one rank never wait for one another.
#pragma once

#include "kernels/device/reduce.h"

namespace rondo::device {

struct Lanes {
  int block, blocks, thread, threads;

  RONDO_HOST_DEVICE Share share() const {
    return {static_cast<std::size_t>(thread), static_cast<std::size_t>(threads)};
  }

  // All threads of the block come here before any goes on, and each sees what the others have written.
  // Whether `mine` is true for any of them.
  RONDO_HOST_DEVICE bool any(bool mine) const {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(mine) != 0;
#else
    return mine;
#endif
  }
  RONDO_HOST_DEVICE void meet() const { any(false); }
};

}  // namespace rondo::device
