#include "nccl/cuda_driver.h"

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "nccl/edge.h"

namespace rondo::nccl {
namespace {

// Set before cuda_driver_is_there, never changed after.
struct Functions {
  decltype(&cuCtxGetDevice) current_device = nullptr;
  decltype(&cuPointerGetAttribute) attribute_of = nullptr;
} driver;

unsigned attribute(const void* pointer, CUpointer_attribute which) {
  unsigned value = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  return driver.attribute_of(&value, which, address) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

std::atomic<bool> cuda_driver_is_there{false};

void look_for_cuda_driver() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (cuda_driver_is_there.load(std::memory_order_relaxed)) return;
  // Holds the driver for good once it is found, as everybody who uses it does.
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  driver.current_device =
      reinterpret_cast<decltype(driver.current_device)>(::dlsym(library, "cuCtxGetDevice"));
  driver.attribute_of =
      reinterpret_cast<decltype(driver.attribute_of)>(::dlsym(library, "cuPointerGetAttribute"));
  if (driver.current_device == nullptr || driver.attribute_of == nullptr) return;
  cuda_driver_is_there.store(true, std::memory_order_release);  // releases `driver`
}

std::optional<int> current_cuda_device() {
  if (!cuda_driver_is_there.load(std::memory_order_acquire)) return std::nullopt;
  CUdevice device = 0;
  if (driver.current_device(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

void refuse_device_memory(const char* argument, const void* pointer) {
  const bool on_device = attribute(pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == CU_MEMORYTYPE_DEVICE;
  if (on_device && attribute(pointer, CU_POINTER_ATTRIBUTE_IS_MANAGED) == 0)
    not_offered(fmt::format("{} {} is memory of a CUDA device", argument, pointer));
}

}  // namespace rondo::nccl
