// A GPU's Compute: Rondo's kernels, and cuBLAS for products.
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "kernels/device/model/launch.h"
#include "models/cublas_library.h"
#include "models/device_compute.h"

namespace rondo {
namespace {

class CudaMath : public DeviceMath {
 public:
  CudaMath() : cublas_(CublasLibrary::load()) {
    need(cublas_.create(&handle_), "cublasCreate");
    // f32 all through: no TF32.
    need(cublas_.set_math_mode(handle_, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
  }
  ~CudaMath() override { cublas_.destroy(handle_); }

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
    need(cublas_.set_stream(handle_, static_cast<cudaStream_t>(stream)), "cublasSetStream");
    const float one = 1.0f;
    need(cublas_.sgemm(handle_, operation(b), operation(a), extent(c.cols()), extent(c.rows()),
                       extent(a.cols()), &one, b.data(), extent(b.stride()), a.data(), extent(a.stride()),
                       &beta, c.data(), extent(c.stride())),
         "cublasSgemm");
  }

 private:
  static cublasOperation_t operation(const Matrix& matrix) {
    return matrix.is_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
  static std::int64_t extent(std::size_t size) { return static_cast<std::int64_t>(size); }

  void need(cublasStatus_t status, const char* function) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      fail(ErrorKind::device, "{}: {}", function, cublas_.get_status_string(status));
  }

  CublasLibrary cublas_;
  cublasHandle_t handle_ = nullptr;
};

// The first use of CUDA makes the GPU's context, which all that follows on this thread is in.
void need(cudaError_t error) {
  if (error != cudaSuccess) fail(ErrorKind::invalid_argument, "no GPU: {}", cudaGetErrorString(error));
}

}  // namespace

std::unique_ptr<Compute> make_cuda_compute(const Communicator& communicator) {
  Device* const device = process_device();
  if (device == nullptr) fail(ErrorKind::invalid_argument, "no CUDA driver on this machine");
  int count = 0;
  need(cudaGetDeviceCount(&count));
  need(cudaSetDevice(communicator.hosts().place_of(communicator.rank()) % count));
  return make_device_compute(*device, std::make_unique<CudaMath>());
}

}  // namespace rondo
