// The kernel that streams do jobs with, as the driver loads it: machine code for each generation of GPUs, in
// this library. So Rondo needs no CUDA runtime of its own, and loads nothing before a call wants the kernel.
#pragma once

#include <map>
#include <mutex>
#include <span>

#include "transports/cuda_library.h"

namespace rondo {

// Empty where Rondo was built without nvcc.
std::span<const unsigned char> kernel_image();

// Safe from any thread.
class CudaKernels {
 public:
  explicit CudaKernels(const CudaLibrary& cuda) : cuda_(cuda) {}

  // For streams of the current context; null where there is none, or the driver cannot load it, which is
  // logged. The first time in a context it is to be called before streams there wait for calls: a driver that
  // loads lazily may wait for all streams, and is made to do it now and not at the first launch.
  CUfunction job();

 private:
  CUresult load(std::span<const unsigned char> image, CUfunction& function);

  const CudaLibrary& cuda_;
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
  std::map<CUcontext, CUfunction> by_context_;  // null: it cannot be loaded there
};

}  // namespace rondo
