#include "nccl/cuda_driver.h"

#include <cuda.h>
#include <dlfcn.h>

#include <memory>

namespace rondo::nccl {

std::optional<int> current_cuda_device() {
  const auto close = [](void* library) { ::dlclose(library); };
  const std::unique_ptr<void, decltype(close)> library(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD),
                                                       close);
  if (!library) return std::nullopt;
  const auto current_device =
      reinterpret_cast<decltype(&cuCtxGetDevice)>(::dlsym(library.get(), "cuCtxGetDevice"));
  CUdevice device = 0;
  if (current_device == nullptr || current_device(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

}  // namespace rondo::nccl
