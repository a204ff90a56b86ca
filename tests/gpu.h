// The GPU that tests run kernels on, where there is one and Rondo was built for it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kernels/device/model/work.h"
#include "kernels/device/run.h"

namespace rondo::test {

// Why no kernel can run here; empty where one can.
std::string why_no_gpu();

// Memory that CPU and GPU share, freed at the end.
class SharedWithGpu {
 public:
  explicit SharedWithGpu(std::size_t bytes);
  ~SharedWithGpu();
  SharedWithGpu(const SharedWithGpu&) = delete;
  SharedWithGpu& operator=(const SharedWithGpu&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// Run kernels and wait for them. Throw std::runtime_error where they fail. The calls of all ranks of a
// collective run at the same time.
void reduce_on_gpu(const device::ReduceWork& work, int blocks);
void collective_on_gpu(std::span<const device::CollectiveCall> by_rank, int blocks);
void run_on_gpu(const device::ModelWork& work);

}  // namespace rondo::test
