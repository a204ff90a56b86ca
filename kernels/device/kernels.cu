// All kernels, in one translation unit: they share one copy of the loops of each type, which are most of the
// code.
#include <stdexcept>
#include <string>

#include "kernels/device/launch.h"

namespace rondo::device {
namespace {

// Threads of the whole grid take turns.
__global__ void __launch_bounds__(block_threads) reduce_kernel(const __grid_constant__ ReduceWork work) {
  const std::size_t threads = blockDim.x;
  reduce_strided(work, {blockIdx.x * threads + threadIdx.x, gridDim.x * threads});
}

__global__ void __launch_bounds__(block_threads)
    collective_kernel(const __grid_constant__ CollectiveCall call) {
  run_collective(call, {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
                        static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)});
}

void expect_started() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("a kernel could not be started: ") + cudaGetErrorString(error));
}

}  // namespace

void launch_reduce(const ReduceWork& work, int blocks, CUstream_st* stream) {
  reduce_kernel<<<static_cast<unsigned>(blocks), block_threads, 0, stream>>>(work);
  expect_started();
}

void launch_collective(const CollectiveCall& call, int blocks, CUstream_st* stream) {
  collective_kernel<<<static_cast<unsigned>(blocks), block_threads, 0, stream>>>(call);
  expect_started();
}

}  // namespace rondo::device
