// The kernel that streams do jobs with, as the driver loads it: machine code for each generation of GPUs, in
// this library. So Rondo needs no CUDA runtime of its own, and loads nothing before a call wants the kernel.
#pragma once

#include <mutex>
#include <optional>
#include <span>

#include "transports/cuda_library.h"

namespace rondo {

// Empty where Rondo was built without nvcc.
std::span<const unsigned char> kernel_image();

// Safe from any thread.
class CudaKernels {
 public:
  explicit CudaKernels(const CudaLibrary& cuda) : cuda_(cuda) {}

  // For streams of any context; null where there is none, or the driver cannot load it, which is logged.
  CUfunction job();

 private:
  CUfunction load() const;

  const CudaLibrary& cuda_;
  std::mutex mutex_;
  std::optional<CUfunction> job_;
};

}  // namespace rondo
