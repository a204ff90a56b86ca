// Random elements of every type and operator, and when two results are the same.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "tests/typed_buffer.h"

namespace rondo::test {

using Memory = std::vector<std::byte>;

inline bool is_float(DataType type) {
  return type == DataType::f16 || type == DataType::f32 || type == DataType::f64 || type == DataType::bf16;
}

inline std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> ops;
  for (int number = 0; number < reduce_op_count; ++number) ops.push_back(static_cast<ReduceOp>(number));
  return ops;
}

// Any bits for integers; for floats numbers whose sums round, and now and then zeros, infinities and NaN.
inline Memory random_elements(DataType type, std::size_t count, std::mt19937& random) {
  Memory memory(count * size_of(type));
  if (!is_float(type)) {
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    return memory;
  }
  const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-24, -0x1p-130, 60000};
  for (std::size_t i = 0; i < count; ++i) {
    const bool special = random() % 8 == 0;
    const double value =
        std::ldexp(static_cast<double>(random()) / 4294967296.0 - 0.5, static_cast<int>(random() % 16));
    set_element(memory.data() + i * size_of(type), type, special ? specials[random() % 8] : value);
  }
  return memory;
}

// Bits must be the same, but for what kind of NaN.
inline bool same(DataType type, const std::byte* a, const std::byte* b, std::size_t count) {
  if (count == 0 || std::memcmp(a, b, count * size_of(type)) == 0) return true;  // none: perhaps null
  if (!is_float(type)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * size_of(type);
    if (std::memcmp(a + at, b + at, size_of(type)) == 0) continue;
    if (!std::isnan(get_element(a + at, type)) || !std::isnan(get_element(b + at, type))) return false;
  }
  return true;
}

// The bits of a pre-multiplied sum's factor.
inline std::uint64_t factor_of(DataType type, double value) {
  std::uint64_t scalar = 0;
  set_element(reinterpret_cast<std::byte*>(&scalar), type, value);
  return scalar;
}

}  // namespace rondo::test
