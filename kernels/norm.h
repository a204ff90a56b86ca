// Root-mean-square normalisation, and layer normalisation without parameters, over the rows of a matrix.
//
// All tensors are f32, row-major, [rows, width]; spans belong to the caller and do not overlap. Functions
// keep no state and run on the calling thread. Throws Error (invalid_argument) where sizes do not fit
// together.
#pragma once

#include <span>

#include "kernels/host_device.h"

namespace rondo {

// y = weight * x / sqrt(mean(x^2) + eps), the mean over a row: RMSNorm (Zhang and Sennrich, 2019) as in
// Qwen3. weight [width] gives the width; inverse_rms [rows], 1 / sqrt(mean(x^2) + eps), is kept for the
// backward pass.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, std::span<float> y,
              std::span<float> inverse_rms);

// Overwrites dx [rows, width] and adds to dweight [width], for the loss's gradient dy [rows, width].
// With n = x * inverse_rms: dx = inverse_rms * (weight * dy - n * mean(weight * dy * n)), dweight += sum over
// rows dy * n.
void rms_norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> weight,
                       std::span<const float> inverse_rms, std::span<float> dx, std::span<float> dweight);

// y = (x - mean(x)) / sqrt(var(x) + eps), mean and (biased) variance over a row: LayerNorm (Ba et al., 2016)
// without weight and bias. inverse_deviation [rows], 1 / sqrt(var(x) + eps), gives the number of rows and is
// kept for backward.
void layer_norm(std::span<const float> x, float eps, std::span<float> y, std::span<float> inverse_deviation);

// Overwrites dx. It needs the output y, not x: dx = inverse_deviation * (dy - mean(dy) - y * mean(dy * y)).
void layer_norm_backward(std::span<const float> dy, std::span<const float> y,
                         std::span<const float> inverse_deviation, std::span<float> dx);

// ---- elements, for the CPU's loops and the GPU's ----

// dx of RMSNorm; normalized is x * inverse_rms, projection the row's mean of weight * dy * normalized.
RONDO_HOST_DEVICE inline float rms_norm_gradient(float dy, float weight, float normalized, float inverse_rms,
                                                 float projection) {
  return inverse_rms * (weight * dy - normalized * projection);
}

// dx of LayerNorm; center is the row's mean of dy, projection that of dy * y.
RONDO_HOST_DEVICE inline float layer_norm_gradient(float dy, float y, float inverse_deviation, float center,
                                                   float projection) {
  return inverse_deviation * (dy - center - y * projection);
}

}  // namespace rondo
