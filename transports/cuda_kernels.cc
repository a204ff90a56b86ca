#include "transports/cuda_kernels.h"

#include "src/log.h"

namespace rondo {

CUfunction CudaKernels::job() {
  CUcontext context = nullptr;
  if (cuda_.ctx_get_current(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto known = by_context_.find(context); known != by_context_.end()) return known->second;
  const auto image = kernel_image();
  CUfunction function = nullptr;
  if (image.empty() || !cuda_.has_libraries()) {
    logger().info("no kernels for GPUs: {}",
                  image.empty() ? "built without nvcc" : "the driver is older than CUDA 12");
  } else if (const CUresult result = load(image, function); result != CUDA_SUCCESS) {
    const char* text = nullptr;
    cuda_.get_error_string(result, &text);
    logger().warn("no kernels for GPUs: the driver does not load them: {}",
                  text == nullptr ? "unknown" : text);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;  // memory may be free the next time
    function = nullptr;
  }
  by_context_.emplace(context, function);
  return function;
}

// The library is never unloaded: streams may still be at work when the program ends. It is loaded once, and a
// function in each context. Before cuFuncLoad there was, a driver loaded what it was asked about; the
// attribute is one that only what is loaded has.
CUresult CudaKernels::load(std::span<const unsigned char> image, CUfunction& function) {
  CUresult result = CUDA_SUCCESS;
  const auto then = [&](auto step) {
    if (result == CUDA_SUCCESS) result = step();
  };
  if (library_ == nullptr)
    then([&] {
      return cuda_.library_load_data(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    });
  CUkernel kernel = nullptr;
  int threads = 0;
  then([&] { return cuda_.library_get_kernel(&kernel, library_, "rondo_job"); });
  then([&] { return cuda_.kernel_get_function(&function, kernel); });
  if (cuda_.func_load != nullptr) then([&] { return cuda_.func_load(function); });
  then([&] { return cuda_.func_get_attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function); });
  return result;
}

}  // namespace rondo
