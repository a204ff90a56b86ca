// In place of cuda_compute.cc where nvcc or cuBLAS's header is not found.
#include "models/device_compute.h"

namespace rondo {

std::unique_ptr<Compute> make_cuda_compute(const Communicator&) {
  fail(ErrorKind::invalid_argument, "Rondo was built without nvcc and cuBLAS");
}

}  // namespace rondo
