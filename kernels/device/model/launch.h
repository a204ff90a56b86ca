// Starts a model's kernels on a GPU. Arguments are copied; what they point to is memory that the GPU can
// reach. Allocates and waits for nothing. Errors of a launch are thrown as std::runtime_error; those of a
// kernel that runs show when its stream is waited for. Any thread.
#pragma once

#include "kernels/device/model/work.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace rondo::device {

// Work without elements starts nothing.
void launch(const ModelWork& work, CUstream_st* stream);

}  // namespace rondo::device
