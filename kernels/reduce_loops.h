// The loops of a reduction, compiled once for each instruction set (kernels/reduce_plain.cc and its
// neighbours).
//
// Everything here has internal linkage and calls no inline function of the standard library: the linker keeps
// one copy of those, and might keep the one compiled for a newer CPU than the program runs on.
#pragma once

#include "kernels/half.h"
#include "kernels/reduce_kernel.h"

namespace rondo {
namespace {

using Size = std::size_t;

// How an element is stored, and in what type it is accumulated.
template <typename T>
struct Element {
  using Accumulator = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};
template <>
struct Element<Half> {
  using Accumulator = float;
  static float widen(Half value) { return to_f32(value); }
  static Half narrow(float value) { return to_f16(value); }
};
template <>
struct Element<BFloat16> {
  using Accumulator = float;
  static float widen(BFloat16 value) { return to_f32(value); }
  static BFloat16 narrow(float value) { return to_bf16(value); }
};

template <typename A>
inline constexpr bool is_floating = false;
template <>
inline constexpr bool is_floating<float> = true;
template <>
inline constexpr bool is_floating<double> = true;

// Signed overflow is undefined, so integers add and multiply as unsigned ones, which wrap.
template <typename A>
A add(A a, A b) {
  if constexpr (is_floating<A>)
    return a + b;
  else
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <typename A>
A multiply(A a, A b) {
  if constexpr (is_floating<A>)
    return a * b;
  else
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

inline bool negative(float value) { return (__builtin_bit_cast(std::uint32_t, value) >> 31) != 0; }
inline bool negative(double value) { return (__builtin_bit_cast(std::uint64_t, value) >> 63) != 0; }
inline float quiet_nan(float) { return __builtin_nanf(""); }
inline double quiet_nan(double) { return __builtin_nan(""); }

// NaN wins, always as the same quiet NaN; -0 is less than +0: so the answer does not depend on the order.
template <typename A>
A lesser(A a, A b) {
  if constexpr (is_floating<A>) {
    const A least = a == b ? (negative(a) ? a : b) : (a < b ? a : b);
    return a != a || b != b ? quiet_nan(a) : least;
  } else {
    return a < b ? a : b;
  }
}

template <typename A>
A greater(A a, A b) {
  if constexpr (is_floating<A>) {
    const A most = a == b ? (negative(a) ? b : a) : (a > b ? a : b);
    return a != a || b != b ? quiet_nan(a) : most;
  } else {
    return a > b ? a : b;
  }
}

template <typename A>
A divide(A sum, int ranks) {
  if constexpr (is_floating<A>)
    return sum / static_cast<A>(ranks);
  else if constexpr (sizeof(A) < sizeof(int))
    return static_cast<A>(static_cast<int>(sum) / ranks);
  else
    return static_cast<A>(sum / static_cast<A>(ranks));
}

template <typename T>
T load(const std::byte* from, Size index) {
  T value;
  __builtin_memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, Size index, T value) {
  __builtin_memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <ReduceOp op, typename A>
A combine(A a, A b) {
  if constexpr (op == ReduceOp::prod)
    return multiply(a, b);
  else if constexpr (op == ReduceOp::max)
    return greater(a, b);
  else if constexpr (op == ReduceOp::min)
    return lesser(a, b);
  else
    return add(a, b);
}

// A block of accumulators stays in the first-level cache while source after source is added to it.
constexpr Size block_elements = 512;

template <typename T, ReduceOp op>
void reduce_block(const ReduceArguments& arguments, Size start, Size block, std::byte* target) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  [[maybe_unused]] const A factor =
      E::widen(load<T>(reinterpret_cast<const std::byte*>(&arguments.scalar), 0));
  const auto input = [factor](const std::byte* source, Size index) {
    const A value = E::widen(load<T>(source, index));
    if constexpr (op == ReduceOp::premul_sum) return multiply(value, factor);
    return value;
  };
  A sums[block_elements];
  const std::byte* const first = arguments.sources[0];
  if (arguments.first_is_partial)
    for (Size i = 0; i < block; ++i) sums[i] = E::widen(load<T>(first, start + i));
  else
    for (Size i = 0; i < block; ++i) sums[i] = input(first, start + i);
  for (Size s = 1; s < arguments.source_count; ++s) {
    const std::byte* const source = arguments.sources[s];
    for (Size i = 0; i < block; ++i) sums[i] = combine<op>(sums[i], input(source, start + i));
  }
  if (op == ReduceOp::avg && arguments.complete)
    for (Size i = 0; i < block; ++i) sums[i] = divide(sums[i], arguments.ranks);
  for (Size i = 0; i < block; ++i) store<T>(target, i, E::narrow(sums[i]));
}

template <typename T, ReduceOp op>
void reduce_typed(const ReduceArguments& arguments) {
  std::byte result[block_elements * sizeof(T)];
  for (Size start = 0; start < arguments.count; start += block_elements) {
    const Size left = arguments.count - start, block = left < block_elements ? left : block_elements;
    if (arguments.target_count == 1) {
      reduce_block<T, op>(arguments, start, block, arguments.targets[0] + start * sizeof(T));
      continue;
    }
    reduce_block<T, op>(arguments, start, block, result);
    for (Size t = 0; t < arguments.target_count; ++t)
      __builtin_memcpy(arguments.targets[t] + start * sizeof(T), result, block * sizeof(T));
  }
}

template <typename T>
ReduceKernel kernel_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_typed<T, ReduceOp::sum>;
    case ReduceOp::prod:
      return reduce_typed<T, ReduceOp::prod>;
    case ReduceOp::max:
      return reduce_typed<T, ReduceOp::max>;
    case ReduceOp::min:
      return reduce_typed<T, ReduceOp::min>;
    case ReduceOp::avg:
      return reduce_typed<T, ReduceOp::avg>;
    case ReduceOp::premul_sum:
      return reduce_typed<T, ReduceOp::premul_sum>;
  }
  return nullptr;
}

ReduceKernel kernel_for(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::i8:
      return kernel_for<std::int8_t>(op);
    case DataType::u8:
      return kernel_for<std::uint8_t>(op);
    case DataType::i32:
      return kernel_for<std::int32_t>(op);
    case DataType::u32:
      return kernel_for<std::uint32_t>(op);
    case DataType::i64:
      return kernel_for<std::int64_t>(op);
    case DataType::u64:
      return kernel_for<std::uint64_t>(op);
    case DataType::f16:
      return kernel_for<Half>(op);
    case DataType::f32:
      return kernel_for<float>(op);
    case DataType::f64:
      return kernel_for<double>(op);
    case DataType::bf16:
      return kernel_for<BFloat16>(op);
  }
  return nullptr;
}

}  // namespace
}  // namespace rondo
