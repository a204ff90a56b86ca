// The operators on single elements, as the GPU applies them: docs/numerics.md to the bit, as the vectors of
// kernels/reduce_loops.h do.
#pragma once

#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/number_traits.h"
#include "kernels/types.h"

namespace rondo::device {

// What elements of a type are accumulated in, and how they get there and back.
template <typename T>
struct Element {
  using Accumulator = T;
  RONDO_HOST_DEVICE static T widen(T value) { return value; }
  RONDO_HOST_DEVICE static T narrow(T value) { return value; }
};
template <>
struct Element<Half> {
  using Accumulator = float;
  RONDO_HOST_DEVICE static float widen(Half value) { return to_f32(value); }
  RONDO_HOST_DEVICE static Half narrow(float value) { return to_f16(value); }
};
template <>
struct Element<BFloat16> {
  using Accumulator = float;
  RONDO_HOST_DEVICE static float widen(BFloat16 value) { return to_f32(value); }
  RONDO_HOST_DEVICE static BFloat16 narrow(float value) { return to_bf16(value); }
};
template <typename T>
using Accumulator = typename Element<T>::Accumulator;

// Signed overflow is undefined, so integers add and multiply as unsigned ones, which wrap.
template <typename A>
RONDO_HOST_DEVICE inline A add(A a, A b) {
  using U = typename Wrapping<A>::type;
  return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
}
template <typename A>
RONDO_HOST_DEVICE inline A multiply(A a, A b) {
  using U = typename Wrapping<A>::type;
  return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
}

template <typename A>
RONDO_HOST_DEVICE inline bool is_negative(A value) {
  if constexpr (sizeof(A) == 8)
    return __builtin_bit_cast(std::int64_t, value) < 0;
  else
    return __builtin_bit_cast(std::int32_t, value) < 0;
}

template <typename A>
RONDO_HOST_DEVICE inline A quiet_nan() {
  if constexpr (sizeof(A) == 8)
    return __builtin_bit_cast(A, std::uint64_t{0x7FF8000000000000});
  else
    return __builtin_bit_cast(A, std::uint32_t{0x7FC00000});
}

// NaN wins, always as the same quiet NaN; -0 is less than +0: so the answer does not depend on the order.
template <typename A>
RONDO_HOST_DEVICE inline A lesser_or_greater(A a, A b, bool greater) {
  bool a_is_less = a < b;
  if constexpr (is_floating<A>) {
    if (a != a || b != b) return quiet_nan<A>();
    a_is_less |= a == b && is_negative(a);
  }
  return a_is_less == greater ? b : a;
}

// The operators' loops: a sum may have a factor, which is multiplied first, or a divisor, which is divided by
// last, and maximum and minimum differ in one bit. Told apart at run time they halve the code, and what nvcc
// takes for it.
enum class Loop { sum, product, extremum };

template <Loop loop, typename A>
RONDO_HOST_DEVICE inline A combine(A a, A b, bool greater) {
  if constexpr (loop == Loop::product)
    return multiply(a, b);
  else if constexpr (loop == Loop::extremum)
    return lesser_or_greater(a, b, greater);
  else
    return add(a, b);
}

// An average's division; integers truncate toward zero.
template <typename A>
RONDO_HOST_DEVICE inline A divide(A sum, int ranks) {
  if constexpr (sizeof(A) < sizeof(int))
    return static_cast<A>(static_cast<int>(sum) / ranks);
  else
    return sum / static_cast<A>(ranks);
}

}  // namespace rondo::device
