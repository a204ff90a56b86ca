// The CUDA driver, if the process has loaded it. Nothing here loads it: a host without GPUs needs none.
#pragma once

#include <atomic>
#include <optional>

namespace rondo::nccl {

// Looks whether the driver is there by now. For the start of a communicator: it takes a microsecond.
void look_for_cuda_driver();

// The calling thread's device; nothing without a driver or without a current context.
std::optional<int> current_cuda_device();

extern std::atomic<bool> cuda_driver_is_there;
void refuse_device_memory(const char* argument, const void* pointer);

// Throws ncclInvalidUsage where `pointer` is memory of a CUDA device, which Rondo would fault on.
inline void need_host_memory(const char* argument, const void* pointer) {
  if (cuda_driver_is_there.load(std::memory_order_acquire)) refuse_device_memory(argument, pointer);
}

}  // namespace rondo::nccl
