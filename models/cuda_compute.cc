// A GPU's Compute: Rondo's kernels, and cuBLAS for products.
#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "kernels/device/model/launch.h"
#include "models/cublas_library.h"
#include "models/device_compute.h"

namespace rondo {
namespace {

class CudaMath : public DeviceMath {
 public:
  CudaMath() {
    // f32 all through: no TF32, no emulation.
    need(cublas_.set_math_mode(handle_.get(), CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  }

  void run(DeviceStream stream, const device::ModelWork& work) override {
    try {
      device::launch(work, static_cast<CUstream_st*>(stream));
    } catch (const std::runtime_error& error) {
      fail(ErrorKind::device, "{}", error.what());
    }
  }

  // cuBLAS stores by columns, and so sees the transposes: c^T = b^T a^T.
  void multiply(DeviceStream stream, const Matrix& a, const Matrix& b, float beta,
                const MutableMatrix& c) override {
    need(cublas_.set_stream(handle_.get(), static_cast<cudaStream_t>(stream)), "cublasSetStream");
    const float one = 1.0f;
    need(cublas_.sgemm(handle_.get(), operation(b), operation(a), extent(c.cols()), extent(c.rows()),
                       extent(a.cols()), &one, b.data(), extent(b.stride()), a.data(), extent(a.stride()),
                       &beta, c.data(), extent(c.stride())),
         "cublasSgemm");
  }

 private:
  static cublasOperation_t operation(const Matrix& matrix) {
    return matrix.is_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
  static std::int64_t extent(std::size_t size) { return static_cast<std::int64_t>(size); }

  using Handle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, decltype(&::cublasDestroy)>;
  Handle make_handle() const {
    cublasHandle_t handle = nullptr;
    need(cublas_.create(&handle), "cublasCreate");
    return {handle, cublas_.destroy};
  }

  void need(cublasStatus_t status, const char* function) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      fail(ErrorKind::device, "{}: {}", function, cublas_.get_status_string(status));
  }

  const CublasLibrary cublas_ = CublasLibrary::load();
  const Handle handle_ = make_handle();
};

int count_of_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) fail(ErrorKind::invalid_argument, "no GPU: {}", cudaGetErrorString(error));
  return count;
}

// Makes the GPU's context, which all that follows on this thread is in.
void use_gpu(int gpu) {
  const cudaError_t error = cudaSetDevice(gpu);
  if (error != cudaSuccess) fail(ErrorKind::device, "GPU {}: {}", gpu, cudaGetErrorString(error));
}

}  // namespace

std::unique_ptr<Compute> make_cuda_compute(const Communicator& communicator) {
  Device* const device = process_device();
  if (device == nullptr)
    fail(ErrorKind::invalid_argument,
         "no CUDA driver on this machine, or Rondo was built without its header");
  use_gpu(communicator.hosts().place_of(communicator.rank()) % count_of_gpus());
  return make_device_compute(*device, std::make_unique<CudaMath>());
}

}  // namespace rondo
