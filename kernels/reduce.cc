#include "kernels/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/half.h"

namespace rondo {
namespace {

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

// Signed overflow is undefined, so signed integers add and multiply as unsigned ones, which wrap.
template <typename A>
A add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <typename A>
A multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename A>
bool negative(A value) {
  if constexpr (std::is_same_v<A, float>)
    return (std::bit_cast<std::uint32_t>(value) >> 31) != 0;
  else
    return (std::bit_cast<std::uint64_t>(value) >> 63) != 0;
}

// NaN wins, always as the same quiet NaN; -0 is less than +0: so the answer does not depend on the order.
template <typename A>
A lesser(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (a != a || b != b) return std::numeric_limits<A>::quiet_NaN();
    if (a == b) return negative(a) ? a : b;
  }
  return a < b ? a : b;
}

template <typename A>
A greater(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (a != a || b != b) return std::numeric_limits<A>::quiet_NaN();
    if (a == b) return negative(a) ? b : a;
  }
  return a > b ? a : b;
}

template <typename A>
A divide(A sum, int ranks) {
  if constexpr (std::is_integral_v<A> && sizeof(A) < sizeof(int))
    return static_cast<A>(static_cast<int>(sum) / ranks);
  else if constexpr (std::is_integral_v<A>)
    // Ranks fit any 32-bit type; -2^31 / 1 is the only quotient near the edge, and it fits.
    return static_cast<A>(sum / static_cast<A>(ranks));
  else
    return sum / static_cast<A>(ranks);
}

template <typename T>
T load(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

// A block of accumulators stays in the first-level cache while source after source is added to it.
constexpr std::size_t block_elements = 512;

template <typename T, ReduceOp op>
void reduce_typed(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
                  Result result, std::byte* target, std::size_t count) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  [[maybe_unused]] const A factor = E::widen(std::bit_cast<T>([&] {
    std::array<std::byte, sizeof(T)> bits;
    std::memcpy(bits.data(), &reduction.scalar, sizeof(T));
    return bits;
  }()));
  const auto input = [&](const std::byte* source, std::size_t index) {
    const A value = E::widen(load<T>(source, index));
    if constexpr (op == ReduceOp::premul_sum) return multiply(value, factor);
    return value;
  };
  const auto combine = [](A a, A b) {
    if constexpr (op == ReduceOp::prod) return multiply(a, b);
    if constexpr (op == ReduceOp::max) return greater(a, b);
    if constexpr (op == ReduceOp::min) return lesser(a, b);
    return add(a, b);
  };
  A sums[block_elements];
  for (std::size_t start = 0; start < count; start += block_elements) {
    const std::size_t block = std::min(block_elements, count - start);
    if (first == FirstSource::partial)
      for (std::size_t i = 0; i < block; ++i) sums[i] = E::widen(load<T>(sources[0], start + i));
    else
      for (std::size_t i = 0; i < block; ++i) sums[i] = input(sources[0], start + i);
    for (const std::byte* source : sources.subspan(1))
      for (std::size_t i = 0; i < block; ++i) sums[i] = combine(sums[i], input(source, start + i));
    if (op == ReduceOp::avg && result == Result::complete)
      for (std::size_t i = 0; i < block; ++i) sums[i] = divide(sums[i], reduction.ranks);
    for (std::size_t i = 0; i < block; ++i) store<T>(target, start + i, E::narrow(sums[i]));
  }
}

using ReduceFunction = void (*)(const Reduction&, std::span<const std::byte* const>, FirstSource, Result,
                                std::byte*, std::size_t);

template <typename T>
ReduceFunction function_for(ReduceOp op) {
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

ReduceFunction function_for(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::i8:
      return function_for<std::int8_t>(op);
    case DataType::u8:
      return function_for<std::uint8_t>(op);
    case DataType::i32:
      return function_for<std::int32_t>(op);
    case DataType::u32:
      return function_for<std::uint32_t>(op);
    case DataType::i64:
      return function_for<std::int64_t>(op);
    case DataType::u64:
      return function_for<std::uint64_t>(op);
    case DataType::f16:
      return function_for<Half>(op);
    case DataType::f32:
      return function_for<float>(op);
    case DataType::f64:
      return function_for<double>(op);
    case DataType::bf16:
      return function_for<BFloat16>(op);
  }
  return nullptr;
}

}  // namespace

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
            Result result, std::byte* target, std::size_t count) {
  function_for(reduction.type, reduction.op)(reduction, sources, first, result, target, count);
}

}  // namespace rondo
