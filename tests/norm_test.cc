#include "kernels/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

struct Shape {
  std::size_t rows, width;
};

class Norm : public testing::TestWithParam<Shape> {
 protected:
  const std::size_t rows_ = GetParam().rows;
  const std::size_t width_ = GetParam().width;
  const std::vector<float> x_ = random_values(rows_ * width_, 1);
  const std::vector<float> dy_ = random_values(rows_ * width_, 2);
  const std::vector<float> weight_ = random_values(width_, 3);
  std::vector<float> y_ = std::vector<float>(x_.size());
  std::vector<float> dx_ = std::vector<float>(x_.size());
  std::vector<float> inverse_ = std::vector<float>(rows_);
};

INSTANTIATE_TEST_SUITE_P(Shapes, Norm, testing::Values(Shape{1, 1}, Shape{3, 7}, Shape{5, 16}, Shape{2, 67}),
                         [](const auto& info) {
                           return std::to_string(info.param.rows) + "x" + std::to_string(info.param.width);
                         });

// Large, so that a misplaced eps shows.
constexpr float eps = 0.25f;

Doubles reference_rms_norm(const Doubles& x, const Doubles& weight) {
  const std::size_t width = weight.size();
  Doubles y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    double squares = 0.0;
    for (std::size_t i = 0; i < width; ++i) squares += x[row + i] * x[row + i];
    const double rms = std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::size_t i = 0; i < width; ++i) y[row + i] = weight[i] * x[row + i] / rms;
  }
  return y;
}

Doubles reference_layer_norm(const Doubles& x, std::size_t width) {
  const auto count = static_cast<double>(width);
  Doubles y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0.0;
    for (std::size_t i = 0; i < width; ++i) mean += x[row + i] / count;
    double variance = 0.0;
    for (std::size_t i = 0; i < width; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean) / count;
    for (std::size_t i = 0; i < width; ++i) y[row + i] = (x[row + i] - mean) / std::sqrt(variance + eps);
  }
  return y;
}

TEST_P(Norm, RmsForward) {
  rms_norm(x_, weight_, eps, y_, inverse_);
  expect_close(y_, reference_rms_norm(to_doubles(x_), to_doubles(weight_)), 2e-6);
}

TEST_P(Norm, RmsBackward) {
  const Doubles x = to_doubles(x_), weight = to_doubles(weight_), dy = to_doubles(dy_);
  std::vector<float> dweight(width_, 0.5f);  // not 0: the gradient is added
  rms_norm(x_, weight_, eps, y_, inverse_);
  rms_norm_backward(dy_, x_, weight_, inverse_, dx_, dweight);
  expect_close(
      dx_, numeric_gradient([&](const Doubles& at) { return dot(reference_rms_norm(at, weight), dy); }, x),
      5e-6);
  Doubles expected =
      numeric_gradient([&](const Doubles& at) { return dot(reference_rms_norm(x, at), dy); }, weight);
  for (double& value : expected) value += 0.5;
  expect_close(dweight, expected, 5e-6);
}

TEST_P(Norm, LayerForward) {
  layer_norm(x_, eps, y_, inverse_);
  expect_close(y_, reference_layer_norm(to_doubles(x_), width_), 2e-6);
}

TEST_P(Norm, LayerBackward) {
  layer_norm(x_, eps, y_, inverse_);
  layer_norm_backward(dy_, y_, inverse_, dx_);
  const Doubles dy = to_doubles(dy_);
  expect_close(dx_,
               numeric_gradient([&](const Doubles& at) { return dot(reference_layer_norm(at, width_), dy); },
                                to_doubles(x_)),
               5e-6);
}

TEST(NormErrors, SizesThatDoNotFit) {
  const std::vector<float> x(6), weight(3);
  std::vector<float> y(6), two(2), three(3);
  EXPECT_THROW(rms_norm(x, weight, eps, y, three), Error);
  EXPECT_THROW(rms_norm(x, weight, eps, two, two), Error);
  EXPECT_THROW(rms_norm_backward(x, x, weight, two, y, two), Error);
  EXPECT_THROW(layer_norm(x, eps, two, two), Error);
  EXPECT_THROW(layer_norm_backward(weight, x, two, y), Error);
}

}  // namespace
}  // namespace rondo
