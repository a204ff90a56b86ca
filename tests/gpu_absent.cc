#include <stdexcept>

#include "tests/gpu.h"

namespace rondo::test {

std::string why_no_gpu() { return "built without CUDA"; }

SharedWithGpu::SharedWithGpu(std::size_t) : data_(nullptr) { throw std::logic_error(why_no_gpu()); }
SharedWithGpu::~SharedWithGpu() = default;

void reduce_on_gpu(const device::ReduceWork&, int) { throw std::logic_error(why_no_gpu()); }
void run_on_gpu(const device::ModelWork&) { throw std::logic_error(why_no_gpu()); }
void collective_on_gpu(std::span<const device::CollectiveCall>, int) { throw std::logic_error(why_no_gpu()); }

}  // namespace rondo::test
