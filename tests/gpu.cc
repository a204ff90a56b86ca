#include "tests/gpu.h"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <vector>

#include "kernels/device/launch.h"
#include "kernels/device/model/launch.h"

namespace rondo::test {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no GPU here: ") + cudaGetErrorString(error);
  return count == 0 ? "no GPU here" : "";
}

SharedWithGpu::SharedWithGpu(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMallocManaged(&data, bytes), "managed memory");
  data_ = static_cast<std::byte*>(data);
}

SharedWithGpu::~SharedWithGpu() { cudaFree(data_); }

void reduce_on_gpu(const device::ReduceWork& work, int blocks) {
  device::launch_reduce(work, blocks, nullptr);
  check(cudaDeviceSynchronize(), "the kernel");
}

void run_on_gpu(const device::ModelWork& work) {
  device::launch(work, nullptr);
  check(cudaDeviceSynchronize(), "the kernel");
}

void collective_on_gpu(std::span<const device::CollectiveCall> by_rank, int blocks) {
  // Streams of their own, so that the ranks' kernels run side by side.
  const std::vector<Stream> streams(by_rank.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
    device::launch_collective(by_rank[rank], blocks, streams[rank].get());
  check(cudaDeviceSynchronize(), "the kernels");
}

}  // namespace rondo::test
