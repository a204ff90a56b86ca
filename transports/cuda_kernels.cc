#include "transports/cuda_kernels.h"

#include "src/log.h"

namespace rondo {

CUfunction CudaKernels::job() {
  const std::lock_guard lock(mutex_);
  if (!job_) job_ = load();
  return *job_;
}

// Never unloaded: streams may still be at work when the program ends.
CUfunction CudaKernels::load() const {
  const auto image = kernel_image();
  if (image.empty() || !cuda_.has_libraries()) {
    logger().info("no kernels for GPUs: {}",
                  image.empty() ? "built without nvcc" : "the driver is older than CUDA 12");
    return nullptr;
  }
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUresult result = cuda_.library_load_data(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) result = cuda_.library_get_kernel(&kernel, library, "rondo_job");
  if (result == CUDA_SUCCESS) return reinterpret_cast<CUfunction>(kernel);
  const char* text = nullptr;
  cuda_.get_error_string(result, &text);
  logger().warn("no kernels for GPUs: the driver does not load them: {}", text == nullptr ? "unknown" : text);
  return nullptr;
}

}  // namespace rondo
