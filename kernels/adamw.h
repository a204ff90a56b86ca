// The AdamW optimizer (Loshchilov and Hutter, 2019), computed as torch.optim.AdamW does.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/host_device.h"

namespace rondo {

// Hyper-parameters, with torch's defaults.
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

// One step, in place, on f32 parameters and moments of equal sizes that belong to the caller and do not
// overlap:
//   parameter -= lr * weight_decay * parameter
//   m = beta1 m + (1 - beta1) gradient,  v = beta2 v + (1 - beta2) gradient^2
//   parameter -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
// step counts from 1, and both moments start as 0. Keeps no state and runs on the calling thread. Throws
// Error (invalid_argument) if sizes differ or step is less than 1.
void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                std::span<const float> gradient, std::span<float> first_moment,
                std::span<float> second_moment);

// The same for single elements, for the CPU's loop and the GPU's. The scalars of a step are computed in f64
// and rounded once, as in torch. Throws as above if step is less than 1.
struct AdamWStep {
  AdamWStep(const AdamW& options, std::int64_t step);

  RONDO_HOST_DEVICE void apply(float& parameter, float gradient, float& first_moment,
                               float& second_moment) const {
    const float m = first_moment + blend1 * (gradient - first_moment);
    const float v = decay2 * second_moment + blend2 * gradient * gradient;
    first_moment = m;
    second_moment = v;
    parameter = keep * parameter - step_size * (m / (std::sqrt(v) / root_correction2 + eps));
  }

  float keep, blend1, decay2, blend2, root_correction2, eps, step_size;
};

}  // namespace rondo
