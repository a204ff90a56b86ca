// exp and erf for f32 without branches or calls, so that loops over them vectorise. The GPU runs the same.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace rondo {

// condition ? yes : no, by bits: GCC turns the plain form into a jump here, and then does not vectorise.
RONDO_HOST_DEVICE inline float blend(bool condition, float yes, float no) {
  const std::uint32_t mask = 0u - std::uint32_t{condition};
  return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, yes) & mask) |
                                       (__builtin_bit_cast(std::uint32_t, no) & ~mask));
}

// x, but at least low and at most high; a NaN stays one.
RONDO_HOST_DEVICE inline float clamp(float x, float low, float high) {
  const float at_least = blend(x < low, low, x);
  return blend(at_least > high, high, at_least);
}

// e^x with a relative error below 1e-7. x is clamped to [-87.3365, 88.376], so the result lies between 2^-126
// and 2.4e38 and never is 0 or infinite; a NaN stays one. x = n ln 2 + r with |r| <= ln 2 / 2, and a
// polynomial for e^r: the constants of Cephes' expf.
RONDO_HOST_DEVICE inline float fast_exp(float x) {
  // Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits of the sum.
  constexpr float rounder = 0x1.8p23f;
  const float inside = clamp(x, -87.3365f, 88.376f);
  const float rounded = inside * 1.44269504f + rounder;
  const float n = rounded - rounder;
  const float r = (inside - n * 0.693359375f) + n * 2.12194440e-4f;
  float tail = 1.9875691500e-4f;
  tail = tail * r + 1.3981999507e-3f;
  tail = tail * r + 8.3334519073e-3f;
  tail = tail * r + 4.1665795894e-2f;
  tail = tail * r + 1.6666665459e-1f;
  tail = tail * r + 5.0000001201e-1f;
  const float e_to_r = (tail * (r * r) + r) + 1.0f;
  const float two_to_n = __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, rounded) + 127u) << 23);
  return e_to_r * two_to_n;
}

// erf(x) with a relative error below 5e-7; a NaN stays one. The rational function x P(x^2) / Q(x^2) on [-4,
// 4] is Eigen's.
RONDO_HOST_DEVICE inline float fast_erf(float x) {
  const float inside = clamp(x, -4.0f, 4.0f);
  const float square = inside * inside;
  float p = -2.72614225801306e-10f;
  p = p * square + 2.77068142495902e-08f;
  p = p * square - 2.10102402082508e-06f;
  p = p * square - 5.69250639462346e-05f;
  p = p * square - 7.34990630326855e-04f;
  p = p * square - 2.95459980854025e-03f;
  p = p * square - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * square - 2.13374055278905e-04f;
  q = q * square - 1.68282697438203e-03f;
  q = q * square - 7.37332916720468e-03f;
  q = q * square - 1.42647390514189e-02f;
  return inside * p / q;
}

}  // namespace rondo
