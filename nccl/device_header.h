// The host functions of nccl_device.h, NCCL's interface for kernels of one's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/edge.h"

#pragma GCC diagnostic push
// It has integers of 128 bits, types in unions, and functions that are for kernels only.
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC visibility push(default)
#include <nccl_device.h>
#pragma GCC visibility pop
#pragma GCC diagnostic pop

namespace rondo::nccl {

// Rondo has no communicator inside kernels, so there is nothing to make, ask or point at.
inline ncclResult_t no_kernels(const char* function) {
  return at_the_edge(function, [] { not_offered("communicators inside kernels"); });
}

}  // namespace rondo::nccl
