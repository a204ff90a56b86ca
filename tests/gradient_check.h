// Helpers for tests of kernels: random inputs, comparison with f64 references, and central finite
// differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace rondo::test {

using Doubles = std::vector<double>;

// Values from a normal distribution, the same in every run for a seed.
inline std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

inline Doubles to_doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

inline double dot(const Doubles& a, const Doubles& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Every element within tolerance * (1 + |expected|).
inline void expect_close(std::span<const float> actual, const Doubles& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1.0 + std::abs(expected[i]))) << "at " << i;
  }
}

// The gradient of loss, a function of Doubles, at a point: central differences in f64.
template <typename Loss>
Doubles numeric_gradient(Loss loss, Doubles point) {
  constexpr double step = 1e-5;
  Doubles gradient(point.size());
  for (std::size_t i = 0; i < point.size(); ++i) {
    const double here = point[i];
    point[i] = here + step;
    const double above = loss(point);
    point[i] = here - step;
    const double below = loss(point);
    point[i] = here;
    gradient[i] = (above - below) / (2.0 * step);
  }
  return gradient;
}

}  // namespace rondo::test
