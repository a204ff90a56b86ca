#include "transports/cuda_kernels.h"

#include "src/log.h"

namespace rondo {

CUfunction CudaKernels::job() {
  CUcontext context = nullptr;
  if (cuda_.ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!kernel_) kernel_ = load();
  if (*kernel_ == nullptr) return nullptr;
  const auto [found, is_new] = by_context_.try_emplace(context, nullptr);
  if (is_new) found->second = load_here(*kernel_);
  return found->second;
}

// Never unloaded: streams may still be at work when the program ends.
CUkernel CudaKernels::load() const {
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
  return is_well(result) ? kernel : nullptr;
}

// What a function is like the driver knows once it has loaded it.
CUfunction CudaKernels::load_here(CUkernel kernel) const {
  CUfunction function = nullptr;
  int registers = 0;
  CUresult result = cuda_.kernel_get_function(&function, kernel);
  if (result == CUDA_SUCCESS)
    result = cuda_.func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  return is_well(result) ? function : nullptr;
}

bool CudaKernels::is_well(CUresult result) const {
  if (result == CUDA_SUCCESS) return true;
  const char* text = nullptr;
  cuda_.get_error_string(result, &text);
  logger().warn("no kernels for GPUs: the driver does not load them: {}", text == nullptr ? "unknown" : text);
  return false;
}

}  // namespace rondo
