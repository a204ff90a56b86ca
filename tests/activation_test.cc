#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/vector_math.h"
#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::dot;
using test::Doubles;
using test::expect_close;
using test::numeric_gradient;
using test::random_values;
using test::to_doubles;

// Random values, and some far out.
std::vector<float> inputs(std::uint32_t seed) {
  auto values = random_values(61, seed);
  for (const float value : {0.0f, -0.0f, 8.0f, -8.0f, 40.0f, -40.0f, 200.0f, -200.0f})
    values.push_back(value);
  return values;
}

Doubles reference_swiglu(const Doubles& gate, const Doubles& up) {
  Doubles out(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) out[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
  return out;
}

Doubles reference_gelu(const Doubles& x) {
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5 * x[i] * (1.0 + std::erf(x[i] / std::sqrt(2.0)));
  return y;
}

TEST(Swiglu, Forward) {
  const auto gate = inputs(1), up = random_values(gate.size(), 2);
  std::vector<float> out(gate.size());
  swiglu(gate, up, out);
  expect_close(out, reference_swiglu(to_doubles(gate), to_doubles(up)), 1e-6);
}

TEST(Swiglu, Backward) {
  const auto gate_values = inputs(1), up_values = random_values(gate_values.size(), 2);
  const auto dout_values = random_values(gate_values.size(), 3);
  std::vector<float> dgate(gate_values.size()), dup(gate_values.size());
  swiglu_backward(dout_values, gate_values, up_values, dgate, dup);
  const Doubles gate = to_doubles(gate_values), up = to_doubles(up_values), dout = to_doubles(dout_values);
  const auto by_gate = [&](const Doubles& at) { return dot(reference_swiglu(at, up), dout); };
  const auto by_up = [&](const Doubles& at) { return dot(reference_swiglu(gate, at), dout); };
  expect_close(dgate, numeric_gradient(by_gate, gate), 2e-6);
  expect_close(dup, numeric_gradient(by_up, up), 2e-6);
}

TEST(Swiglu, BackwardInPlace) {
  const auto gate = inputs(1), up = random_values(gate.size(), 2), dout = random_values(gate.size(), 3);
  std::vector<float> dgate(gate.size()), dup(gate.size()), other(gate.size());
  swiglu_backward(dout, gate, up, dgate, dup);
  auto in_place = dout;
  swiglu_backward(in_place, gate, up, in_place, other);
  EXPECT_EQ(in_place, dgate);
  in_place = dout;
  swiglu_backward(in_place, gate, up, other, in_place);
  EXPECT_EQ(in_place, dup);
}

TEST(Gelu, Forward) {
  const auto x = inputs(1);
  std::vector<float> y(x.size());
  gelu(x, y);
  expect_close(y, reference_gelu(to_doubles(x)), 1e-6);
}

TEST(Gelu, Backward) {
  const auto x = inputs(1), dy = random_values(x.size(), 2);
  std::vector<float> dx(x.size());
  gelu_backward(dy, x, dx);
  const auto loss = [&](const Doubles& at) { return dot(reference_gelu(at), to_doubles(dy)); };
  expect_close(dx, numeric_gradient(loss, to_doubles(x)), 2e-6);
  auto in_place = dy;
  gelu_backward(in_place, x, in_place);
  EXPECT_EQ(in_place, dx);
}

TEST(ActivationErrors, SizesThatDiffer) {
  const std::vector<float> three(3), four(4);
  std::vector<float> out(3), longer(4);
  EXPECT_THROW(swiglu(three, four, out), Error);
  EXPECT_THROW(swiglu_backward(three, three, three, out, longer), Error);
  EXPECT_THROW(gelu(three, longer), Error);
  EXPECT_THROW(gelu_backward(four, three, out), Error);
}

// The largest relative error over evenly spaced arguments.
template <typename Function, typename Reference>
double largest_error(float from, float to, Function function, Reference reference) {
  double largest = 0.0;
  const float step = (to - from) / 200000.0f;
  for (float x = from; x < to; x += step) {
    const double exact = reference(double{x});
    if (exact != 0.0) largest = std::max(largest, std::abs((function(x) - exact) / exact));
  }
  return largest;
}

TEST(VectorMath, ExpIsAccurate) {
  EXPECT_LT(largest_error(-87.33f, 88.37f, fast_exp, [](double x) { return std::exp(x); }), 1e-7);
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  EXPECT_LT(fast_exp(-std::numeric_limits<float>::infinity()), 1.2e-38f);
  EXPECT_GT(fast_exp(std::numeric_limits<float>::infinity()), 2.4e38f);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, ErfIsAccurate) {
  EXPECT_LT(largest_error(-6.0f, 6.0f, fast_erf, [](double x) { return std::erf(x); }), 5e-7);
  EXPECT_EQ(fast_erf(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(fast_erf(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace rondo
