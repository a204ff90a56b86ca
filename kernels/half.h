// f16 and bf16 to and from f32, by integer arithmetic: the CPU's own bf16 instruction flushes subnormals.
// Branches are written as selections so that a compiler can vectorise loops over these functions; they are
// always inlined, and call nothing, so that each instruction set's loops have code of their own. The GPU runs
// the same.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace rondo {

[[gnu::always_inline]] RONDO_HOST_DEVICE inline float to_f32(BFloat16 value) {
  return __builtin_bit_cast(float, std::uint32_t{value.bits} << 16);
}

// Rounds to nearest, ties to even. A NaN stays a NaN (quiet), an overflow becomes infinity.
[[gnu::always_inline]] RONDO_HOST_DEVICE inline BFloat16 to_bf16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return {static_cast<std::uint16_t>(nan ? quiet : rounded)};
}

[[gnu::always_inline]] RONDO_HOST_DEVICE inline float to_f32(Half value) {
  const std::uint32_t sign = (std::uint32_t{value.bits} & 0x8000u) << 16;
  const std::uint32_t magnitude = std::uint32_t{value.bits} & 0x7FFFu;
  // Normal numbers: move exponent and fraction up, then add the difference of the biases (127 - 15).
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7F800000u;
  // Subnormal numbers are magnitude * 2^-24, which f32 holds exactly.
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude) * 0x1p-24f);
  const std::uint32_t bits = magnitude >= 0x7C00u ? special : magnitude < 0x0400u ? subnormal : normal;
  return __builtin_bit_cast(float, sign | bits);
}

// Rounds to nearest, ties to even. A NaN stays a NaN (quiet), an overflow becomes infinity.
[[gnu::always_inline]] RONDO_HOST_DEVICE inline Half to_f16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns the last kept bit of a subnormal result with the last bit of the f32 sum.
  const std::uint32_t subnormal =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) -
      __builtin_bit_cast(std::uint32_t, 0.5f);
  const std::uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
  std::uint32_t result = magnitude < (113u << 23) ? subnormal : normal;
  result = magnitude >= 0x477FF000u ? 0x7C00u : result;  // 65520 and above round to infinity
  result = magnitude > 0x7F800000u ? nan : result;
  return {static_cast<std::uint16_t>(sign | result)};
}

}  // namespace rondo
