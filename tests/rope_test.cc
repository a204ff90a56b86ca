#include "kernels/rope.h"

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

constexpr double theta = 10000.0;

struct Shape {
  std::size_t batch, length, heads, head_dim;
  std::size_t size() const { return batch * length * heads * head_dim; }
};

// transformers: x * cos + rotate_half(x) * sin, rotate_half(x) = (-second half, first half).
Doubles reference_rope(const Shape& shape, const Doubles& x) {
  const std::size_t half = shape.head_dim / 2;
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t position = i / (shape.head_dim * shape.heads) % shape.length;
    const std::size_t within = i % shape.head_dim;
    const double exponent = -2.0 * static_cast<double>(within % half) / static_cast<double>(shape.head_dim);
    const double angle = static_cast<double>(position) * std::pow(theta, exponent);
    const double rotated_half = within < half ? -x[i + half] : x[i - half];
    y[i] = x[i] * std::cos(angle) + rotated_half * std::sin(angle);
  }
  return y;
}

class RopeShapes : public testing::TestWithParam<Shape> {
 protected:
  const Shape shape_ = GetParam();
  const Rope rope_{static_cast<float>(theta), shape_.head_dim, shape_.length + 3};
};

INSTANTIATE_TEST_SUITE_P(Shapes, RopeShapes,
                         testing::Values(Shape{1, 1, 1, 2}, Shape{2, 5, 3, 6}, Shape{3, 9, 1, 10},
                                         Shape{1, 4, 2, 64}));

TEST_P(RopeShapes, Forward) {
  const auto x = random_values(shape_.size(), 1);
  auto y = x;
  rope_.rotate(y, shape_.length, shape_.heads);
  expect_close(y, reference_rope(shape_, to_doubles(x)), 2e-6);
}

TEST_P(RopeShapes, Backward) {
  const auto x = random_values(shape_.size(), 1);
  const auto dy = random_values(shape_.size(), 2);
  auto dx = dy;
  rope_.rotate_backward(dx, shape_.length, shape_.heads);
  const auto loss = [&](const Doubles& at) { return dot(reference_rope(shape_, at), to_doubles(dy)); };
  expect_close(dx, numeric_gradient(loss, to_doubles(x)), 5e-6);
}

TEST(RopeErrors, ShapesThatDoNotFit) {
  EXPECT_THROW(Rope(1e4f, 3, 8), Error);
  EXPECT_THROW(Rope(1e4f, 0, 8), Error);
  const Rope rope(1e4f, 4, 2);
  std::vector<float> x(24);
  EXPECT_THROW(rope.rotate(x, 3, 2), Error);
  EXPECT_THROW(rope.rotate(x, 2, 2), Error);
  EXPECT_THROW(rope.rotate(x, 2, 0), Error);
  EXPECT_NO_THROW(rope.rotate(x, 2, 3));
}

}  // namespace
}  // namespace rondo
