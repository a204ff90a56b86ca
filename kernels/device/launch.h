// Starts kernels on a GPU. Nothing here allocates, waits or asks the GPU anything, so a CUDA graph can
// capture it. Arguments are copied; what they point to is memory that the GPU can reach. Errors of a launch
// are thrown as std::runtime_error; those of a kernel that runs show when its stream is waited for. Any
// thread.
#pragma once

#include "kernels/device/run.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace rondo::device {

inline constexpr int block_threads = 512;

// `blocks` blocks share the work; 1 or more.
void launch_reduce(const ReduceWork& work, int blocks, CUstream_st* stream);

// This rank's part of a call, in as many blocks on all ranks (blocks_for).
void launch_collective(const CollectiveCall& call, int blocks, CUstream_st* stream);

}  // namespace rondo::device
