// The CUDA driver, if the process has loaded it. Nothing here loads it: a host without GPUs needs none.
#pragma once

#include <optional>

namespace rondo::nccl {

// The calling thread's device; nothing without a driver or without a current context. For the start of a
// communicator: it takes a microsecond.
std::optional<int> current_cuda_device();

}  // namespace rondo::nccl
