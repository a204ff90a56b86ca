// The models' kernels.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/device/model/launch.h"

namespace rondo::device {
namespace {

constexpr unsigned block_groups = 16, block_threads = block_groups * group_lanes;
// Groups take turns at what is more.
constexpr std::size_t most_blocks = 65'536;

template <typename Work>
__global__ void __launch_bounds__(block_threads) work_kernel(const __grid_constant__ Work work) {
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  work.run({thread / group_lanes, std::size_t{gridDim.x} * block_groups, thread % group_lanes, group_lanes});
}

template <typename Work>
void launch_one(const Work& work, CUstream_st* stream) {
  const std::size_t blocks = std::min((work.groups() + block_groups - 1) / block_groups, most_blocks);
  if (blocks == 0) return;
  work_kernel<<<static_cast<unsigned>(blocks), block_threads, 0, stream>>>(work);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("a kernel could not be started: ") + cudaGetErrorString(error));
}

}  // namespace

void launch(const ModelWork& work, CUstream_st* stream) {
  std::visit([&](const auto& one) { launch_one(one, stream); }, work);
}

}  // namespace rondo::device
