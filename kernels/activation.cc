#include "kernels/activation.h"

#include <cstddef>
#include <numbers>

#include "kernels/shape_check.h"
#include "kernels/vector_math.h"

namespace rondo {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

// The standard normal distribution: the probability of a value up to x, and the density at x.
float normal_probability(float x) {
  return 0.5f * (1.0f + fast_erf(x * (std::numbers::sqrt2_v<float> / 2.0f)));
}

float normal_density(float x) {
  constexpr float at_zero = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  return at_zero * fast_exp(-0.5f * x * x);
}

}  // namespace

void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
  expect_size("swiglu: up", up.size(), gate.size());
  expect_size("swiglu: out", out.size(), gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void swiglu_backward(std::span<const float> dout, std::span<const float> gate, std::span<const float> up,
                     std::span<float> dgate, std::span<float> dup) {
  expect_size("swiglu_backward: dout", dout.size(), gate.size());
  expect_size("swiglu_backward: up", up.size(), gate.size());
  expect_size("swiglu_backward: dgate", dgate.size(), gate.size());
  expect_size("swiglu_backward: dup", dup.size(), gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const float d = dout[i];
    const float g = gate[i];
    const float u = up[i];
    const float s = sigmoid(g);
    dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
    dup[i] = d * g * s;
  }
}

void gelu(std::span<const float> x, std::span<float> y) {
  expect_size("gelu: y", y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * normal_probability(x[i]);
}

void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx) {
  expect_size("gelu_backward: dy", dy.size(), x.size());
  expect_size("gelu_backward: dx", dx.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    dx[i] = dy[i] * (normal_probability(x[i]) + x[i] * normal_density(x[i]));
  }
}

}  // namespace rondo
