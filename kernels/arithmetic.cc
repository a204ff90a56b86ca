#include "kernels/arithmetic.h"

#include <cstddef>

#include "kernels/lanes.h"
#include "kernels/shape_check.h"

namespace rondo {

void add(std::span<float> y, std::span<const float> x) {
  expect_size("add: x", x.size(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
}

void add_scaled(std::span<float> y, float alpha, std::span<const float> x) {
  expect_size("add_scaled: x", x.size(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += alpha * x[i];
}

double sum_of_squares(std::span<const float> x) {
  return sum_lanes(x.size(), [x](std::size_t i) { return double{x[i]} * double{x[i]}; });
}

}  // namespace rondo
