// The one kernel that a communicator starts, in an image of its own: the driver loads it (transports/
// cuda_kernels.h), so that Rondo needs no CUDA runtime beside the program's.
#include "kernels/device/job.h"

namespace {

struct AsNamed {
  RONDO_HOST_DEVICE std::byte* operator()(std::byte* address, std::size_t) const { return address; }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(512) rondo_job(const rondo::device::Job* job) {
  __shared__ rondo::device::BlockMemory own;
  rondo::device::JobBlock(*job, own,
                          {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
                           static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)},
                          AsNamed{})
      .run();
}
