// The models' arithmetic on a device: kernels of kernels/device/model/, products of a library, both on one
// stream. What comes from outside is checked: ids, labels, positions, the shapes of products. That buffers
// fit their shapes is checked on the CPU, for the same models.
#pragma once

#include <memory>

#include "kernels/device/model/work.h"
#include "models/compute.h"
#include "src/device.h"

namespace rondo {

// What a device computes with. Everything is put on the stream and returns before it is done.
class DeviceMath {
 public:
  virtual ~DeviceMath() = default;

  virtual void run(DeviceStream stream, const device::ModelWork& work) = 0;
  // c = a b + beta c, in f32 throughout. The shapes fit together; no extent is 0.
  virtual void multiply(DeviceStream stream, const Matrix& a, const Matrix& b, float beta,
                        const MutableMatrix& c) = 0;
};

// The device must be process_device(), and outlive what is made here.
std::unique_ptr<Compute> make_device_compute(Device& device, std::unique_ptr<DeviceMath> math);

// On a GPU: that of this rank, counted among the ranks of its host, which take turns where there are more of
// them than GPUs. Throws invalid_argument, with the reason, where there is no GPU, driver or cuBLAS, or Rondo
// was built without kernels for GPUs; device where a GPU fails.
std::unique_ptr<Compute> make_cuda_compute(const Communicator& communicator);

}  // namespace rondo
