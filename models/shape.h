// Shapes of tensors, whose sizes may come from a file: products are checked.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

// Sizes from the outermost dimension, dimension 0, to the innermost. Without any it is a scalar's shape.
using Shape = std::vector<std::size_t>;

// a * b, or nothing where that overflows.
inline std::optional<std::size_t> checked_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The elements in a tensor of this shape, 1 for a scalar; nothing where the number overflows.
inline std::optional<std::size_t> element_count(const Shape& shape) {
  std::optional<std::size_t> count = 1;
  for (const std::size_t size : shape) {
    count = checked_product(*count, size);
    if (!count) break;
  }
  return count;
}

// Such as "64x48", or "scalar".
inline std::string to_string(const Shape& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

}  // namespace rondo
