#include "kernels/norm.h"

#include <cmath>
#include <cstddef>

#include "kernels/lanes.h"
#include "kernels/shape_check.h"

namespace rondo {
namespace {

// Mean of term(0) ... term(width - 1).
template <typename Term>
float mean(std::size_t width, Term term) {
  return sum_lanes(width, term) / static_cast<float>(width);
}

std::size_t width_of(std::span<const float> x, std::size_t rows) { return rows == 0 ? 0 : x.size() / rows; }

}  // namespace

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, std::span<float> y,
              std::span<float> inverse_rms) {
  const std::size_t width = weight.size();
  expect_size("rms_norm: x", x.size(), inverse_rms.size() * width);
  expect_size("rms_norm: y", y.size(), x.size());
  for (std::size_t row = 0; row < inverse_rms.size(); ++row) {
    const float* in = x.data() + row * width;
    float* out = y.data() + row * width;
    const float inverse = 1.0f / std::sqrt(mean(width, [in](std::size_t i) { return in[i] * in[i]; }) + eps);
    for (std::size_t i = 0; i < width; ++i) out[i] = weight[i] * (in[i] * inverse);
    inverse_rms[row] = inverse;
  }
}

void rms_norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> weight,
                       std::span<const float> inverse_rms, std::span<float> dx, std::span<float> dweight) {
  const std::size_t width = weight.size();
  expect_size("rms_norm_backward: x", x.size(), inverse_rms.size() * width);
  expect_size("rms_norm_backward: dy", dy.size(), x.size());
  expect_size("rms_norm_backward: dx", dx.size(), x.size());
  expect_size("rms_norm_backward: dweight", dweight.size(), width);
  for (std::size_t row = 0; row < inverse_rms.size(); ++row) {
    const float* in = x.data() + row * width;
    const float* dout = dy.data() + row * width;
    float* din = dx.data() + row * width;
    const float inverse = inverse_rms[row];
    const float projection =
        mean(width, [&, in, dout](std::size_t i) { return weight[i] * dout[i] * (in[i] * inverse); });
    for (std::size_t i = 0; i < width; ++i) {
      const float normalized = in[i] * inverse;
      din[i] = rms_norm_gradient(dout[i], weight[i], normalized, inverse, projection);
      dweight[i] += dout[i] * normalized;
    }
  }
}

void layer_norm(std::span<const float> x, float eps, std::span<float> y, std::span<float> inverse_deviation) {
  const std::size_t rows = inverse_deviation.size();
  const std::size_t width = width_of(x, rows);
  expect_size("layer_norm: x", x.size(), rows * width);
  expect_size("layer_norm: y", y.size(), x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const float* in = x.data() + row * width;
    float* out = y.data() + row * width;
    const float center = mean(width, [in](std::size_t i) { return in[i]; });
    const float variance =
        mean(width, [in, center](std::size_t i) { return (in[i] - center) * (in[i] - center); });
    const float inverse = 1.0f / std::sqrt(variance + eps);
    for (std::size_t i = 0; i < width; ++i) out[i] = (in[i] - center) * inverse;
    inverse_deviation[row] = inverse;
  }
}

void layer_norm_backward(std::span<const float> dy, std::span<const float> y,
                         std::span<const float> inverse_deviation, std::span<float> dx) {
  const std::size_t rows = inverse_deviation.size();
  const std::size_t width = width_of(y, rows);
  expect_size("layer_norm_backward: y", y.size(), rows * width);
  expect_size("layer_norm_backward: dy", dy.size(), y.size());
  expect_size("layer_norm_backward: dx", dx.size(), y.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const float* out = y.data() + row * width;
    const float* dout = dy.data() + row * width;
    float* din = dx.data() + row * width;
    const float center = mean(width, [dout](std::size_t i) { return dout[i]; });
    const float projection = mean(width, [dout, out](std::size_t i) { return dout[i] * out[i]; });
    const float inverse = inverse_deviation[row];
    for (std::size_t i = 0; i < width; ++i)
      din[i] = layer_norm_gradient(dout[i], out[i], inverse, center, projection);
  }
}

}  // namespace rondo
