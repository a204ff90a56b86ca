// What arithmetic needs to know of the types that it accumulates in.
#pragma once

#include <cstdint>

namespace rondo {

// Integers that wrap where signed ones would be undefined.
template <typename A>
struct Wrapping {
  using type = A;
};
template <>
struct Wrapping<std::int8_t> {
  using type = std::uint8_t;
};
template <>
struct Wrapping<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int64_t> {
  using type = std::uint64_t;
};

template <typename A>
inline constexpr bool is_floating = false;
template <>
inline constexpr bool is_floating<float> = true;
template <>
inline constexpr bool is_floating<double> = true;

}  // namespace rondo
