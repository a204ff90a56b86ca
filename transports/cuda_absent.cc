// In place of cuda_device.cc where Rondo is built without CUDA.
#include "src/device.h"

namespace rondo {

std::unique_ptr<Device> make_cuda_device() { return nullptr; }

}  // namespace rondo
