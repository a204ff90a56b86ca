#include "kernels/job_image.h"  // made by nvcc: job_image
#include "transports/cuda_kernels.h"

namespace rondo {

std::span<const unsigned char> kernel_image() { return job_image; }

}  // namespace rondo
