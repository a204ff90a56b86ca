// The activations of single elements (kernels/activation.h), for the CPU's loops and the GPU's.
#pragma once

#include <numbers>

#include "kernels/vector_math.h"

namespace rondo {

RONDO_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

RONDO_HOST_DEVICE inline float swiglu_of(float gate, float up) { return gate * sigmoid(gate) * up; }

struct SwigluGradient {
  float gate, up;
};
RONDO_HOST_DEVICE inline SwigluGradient swiglu_gradient_of(float dout, float gate, float up) {
  const float s = sigmoid(gate);
  return {dout * up * s * (1.0f + gate * (1.0f - s)), dout * gate * s};
}

// The standard normal distribution: the probability of a value up to x, and the density at x.
RONDO_HOST_DEVICE inline float normal_probability(float x) {
  return 0.5f * (1.0f + fast_erf(x * (std::numbers::sqrt2_v<float> / 2.0f)));
}
RONDO_HOST_DEVICE inline float normal_density(float x) {
  constexpr float at_zero = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  return at_zero * fast_exp(-0.5f * x * x);
}

RONDO_HOST_DEVICE inline float gelu_of(float x) { return x * normal_probability(x); }
RONDO_HOST_DEVICE inline float gelu_slope_of(float x) {
  return normal_probability(x) + x * normal_density(x);
}

}  // namespace rondo
