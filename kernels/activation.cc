#include "kernels/activation.h"

#include <cstddef>

#include "kernels/activation_math.h"
#include "kernels/shape_check.h"

namespace rondo {

void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
  expect_size("swiglu: up", up.size(), gate.size());
  expect_size("swiglu: out", out.size(), gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) out[i] = swiglu_of(gate[i], up[i]);
}

void swiglu_backward(std::span<const float> dout, std::span<const float> gate, std::span<const float> up,
                     std::span<float> dgate, std::span<float> dup) {
  expect_size("swiglu_backward: dout", dout.size(), gate.size());
  expect_size("swiglu_backward: up", up.size(), gate.size());
  expect_size("swiglu_backward: dgate", dgate.size(), gate.size());
  expect_size("swiglu_backward: dup", dup.size(), gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const SwigluGradient gradient = swiglu_gradient_of(dout[i], gate[i], up[i]);
    dgate[i] = gradient.gate;
    dup[i] = gradient.up;
  }
}

void gelu(std::span<const float> x, std::span<float> y) {
  expect_size("gelu: y", y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = gelu_of(x[i]);
}

void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx) {
  expect_size("gelu_backward: dy", dy.size(), x.size());
  expect_size("gelu_backward: dx", dx.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] = dy[i] * gelu_slope_of(x[i]);
}

}  // namespace rondo
