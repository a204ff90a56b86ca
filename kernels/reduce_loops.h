// The loops of a reduction, compiled once for each instruction set (kernels/reduce_plain.cc and its
// neighbours). They work on vectors of accumulators as wide as the CPU's registers: each is loaded from all
// sources, combined and stored to all targets in one go, and touches memory no more than that.
//
// Everything here has internal linkage and calls no inline function of the standard library: the linker keeps
// one copy of those, and might keep the one compiled for a newer CPU than the program runs on.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/half.h"
#include "kernels/number_traits.h"
#include "kernels/reduce_kernel.h"

namespace rondo {
namespace {

using Size = std::size_t;

#if defined(__AVX512F__)
constexpr Size vector_bytes = 64;
#elif defined(__AVX2__)
constexpr Size vector_bytes = 32;
#else
constexpr Size vector_bytes = 16;
#endif
constexpr Size cache_line = 64;

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <typename T>
using Vector = typename VectorOf<T>::type;
using Floats = Vector<float>;
using Words = Vector<std::uint32_t>;
typedef std::uint16_t Halves __attribute__((vector_size(vector_bytes / 2)));

template <typename V>
[[gnu::always_inline]] inline V load(const std::byte* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

// How a vector of elements is stored, and the vectors in which its elements are accumulated.
template <typename A, int vectors>
struct Accumulators {
  Vector<A> part[vectors];
};

template <typename T>
struct Element {
  using Accumulator = T;
  using Stored = Vector<T>;
  using Wide = Accumulators<T, 1>;
  static Wide widen(Stored value) { return {{value}}; }
  static Stored narrow(const Wide& wide) { return wide.part[0]; }
};

// The elements at even places in one vector and those at odd places in another: so the 16-bit lanes need not
// be spread out and packed again, which takes longer than the sums.
template <>
struct Element<BFloat16> {
  using Accumulator = float;
  using Stored = Words;
  using Wide = Accumulators<float, 2>;
  static Wide widen(Words pairs) { return {{(Floats)(pairs << 16), (Floats)(pairs & 0xFFFF0000u)}}; }
  static Words narrow(const Wide& wide) {
    return (rounded(wide.part[0]) >> 16) | (rounded(wide.part[1]) & 0xFFFF0000u);
  }

 private:
  // As to_bf16 in half.h, in the upper half.
  static Words rounded(Floats value) {
    const Words bits = (Words)value;
#if defined(__AVX512F__)
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
    const Words sum = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return (Words)_mm512_mask_or_epi32((__m512i)sum, nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
#else
    const Words nan = (Words)(value != value);
    return ((bits | 0x400000u) & nan) | ((bits + 0x7FFFu + ((bits >> 16) & 1u)) & ~nan);
#endif
  }
};

template <>
struct Element<Half> {
  using Accumulator = float;
  using Stored = Halves;
  using Wide = Accumulators<float, 1>;
  // The CPU's own conversions of f16 are exact, round as to_f16 does and flush nothing.
#if defined(__AVX512F__)
  static Wide widen(Halves value) {
    return {{(Floats)_mm512_maskz_cvtph_ps(0xFFFF, (__m256i)value) }};
  }
  static Halves narrow(const Wide& wide) {
    return (Halves)_mm512_maskz_cvtps_ph(0xFFFF, (__m512)wide.part[0], _MM_FROUND_TO_NEAREST_INT);
  }
#elif defined(__F16C__)
  static Wide widen(Halves value) {
    return {{(Floats)_mm256_cvtph_ps((__m128i)value) }};
  }
  static Halves narrow(const Wide& wide) {
    return (Halves)_mm256_cvtps_ph((__m256)wide.part[0], _MM_FROUND_TO_NEAREST_INT);
  }
#else
  static Wide widen(Halves value) {
    Floats floats{};
    for (Size lane = 0; lane < vector_bytes / 4; ++lane) floats[lane] = to_f32(Half{value[lane]});
    return {{floats}};
  }
  static Halves narrow(const Wide& wide) {
    Halves narrow{};
    for (Size lane = 0; lane < vector_bytes / 4; ++lane) narrow[lane] = to_f16(wide.part[0][lane]).bits;
    return narrow;
  }
#endif
};

template <typename V, typename Mask>
[[gnu::always_inline]] inline V select(Mask mask, V yes, V no) {
  return (V)((mask & (Mask)yes) | (~mask & (Mask)no));
}

// NaN wins, always as the same quiet NaN; -0 is less than +0: so the answer does not depend on the order.
template <typename A>
[[gnu::always_inline]] inline Vector<A> lesser_or_greater(Vector<A> a, Vector<A> b, bool greater) {
  using Mask = decltype(a < b);
  Mask a_is_less = a < b;
  if constexpr (is_floating<A>) a_is_less |= (a == b) & ((Mask)a < 0);
  const Vector<A> picked = greater ? select(a_is_less, b, a) : select(a_is_less, a, b);
  if constexpr (is_floating<A>)
    return select((a != a) | (b != b), Vector<A>{} + static_cast<A>(__builtin_nan("")), picked);
  else
    return picked;
}

// Signed overflow is undefined, so integers add and multiply as unsigned ones, which wrap.
template <typename A>
[[gnu::always_inline]] inline Vector<A> multiply(Vector<A> a, Vector<A> b) {
  if constexpr (is_floating<A>) {
    return a * b;
  } else {
    using U = Vector<typename Wrapping<A>::type>;
    return (Vector<A>)((U)a * (U)b);
  }
}

template <ReduceOp op, typename A>
[[gnu::always_inline]] inline Vector<A> combine(Vector<A> a, Vector<A> b) {
  if constexpr (op == ReduceOp::prod) {
    return multiply<A>(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return lesser_or_greater<A>(a, b, true);
  } else if constexpr (op == ReduceOp::min) {
    return lesser_or_greater<A>(a, b, false);
  } else if constexpr (is_floating<A>) {
    return a + b;
  } else {
    using U = Vector<typename Wrapping<A>::type>;
    return (Vector<A>)((U)a + (U)b);
  }
}

// CPUs divide integers one by one, so nothing is gained by inlining it.
template <typename A>
[[gnu::noinline]] Vector<A> divide_integers(Vector<A> sum, int ranks) {
  constexpr Size lanes = vector_bytes / sizeof(A);
  A lane[lanes];
  __builtin_memcpy(lane, &sum, sizeof lane);
#pragma GCC unroll 1
  for (A& one : lane) {
    if constexpr (sizeof(A) < sizeof(int))
      one = static_cast<A>(static_cast<int>(one) / ranks);
    else
      one = static_cast<A>(one / static_cast<A>(ranks));
  }
  __builtin_memcpy(&sum, lane, sizeof lane);
  return sum;
}

template <typename A>
[[gnu::always_inline]] inline Vector<A> divide(Vector<A> sum, int ranks) {
  if constexpr (is_floating<A>)
    return sum / (Vector<A>{} + static_cast<A>(ranks));
  else
    return divide_integers<A>(sum, ranks);
}

// ---- stores ----

template <bool streaming, typename V>
[[gnu::always_inline]] inline void store(std::byte* to, V value) {
  if constexpr (streaming) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return _mm512_stream_si512((__m512i*)to, (__m512i)value);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return _mm256_stream_si256((__m256i*)to, (__m256i)value);
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return _mm_stream_si128((__m128i*)to, (__m128i)value);
#endif
  }
  __builtin_memcpy(to, &value, sizeof(V));
}

inline void end_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// ---- loops ----

// A reduction of some vectors, all that the loops need in one place.
template <typename T, ReduceOp op>
struct Reducer {
  using E = Element<T>;
  using A = typename E::Accumulator;
  using Wide = typename E::Wide;
  using Stored = typename E::Stored;
  static constexpr Size parts = sizeof(Wide) / vector_bytes;
  static constexpr Size stored_bytes = sizeof(Stored);
  static constexpr Size lanes = stored_bytes / sizeof(T);

  const ReduceArguments& arguments;
  Wide factor;

  explicit Reducer(const ReduceArguments& from) : arguments(from) {
    T scalar;
    __builtin_memcpy(&scalar, &from.scalar, sizeof(T));
    Stored all{};
    for (Size lane = 0; lane < lanes; ++lane)
      __builtin_memcpy((std::byte*)&all + lane * sizeof(T), &scalar, sizeof(T));
    factor = E::widen(all);
  }

  [[gnu::always_inline]] Wide input(const std::byte* from) const {
    Wide value = E::widen(load<Stored>(from));
    if constexpr (op == ReduceOp::premul_sum)
      for (Size p = 0; p < parts; ++p) value.part[p] = multiply<A>(value.part[p], factor.part[p]);
    return value;
  }

  [[gnu::always_inline]] Wide first(const std::byte* from) const {
    return arguments.first_is_partial ? E::widen(load<Stored>(from)) : input(from);
  }

  [[gnu::always_inline]] static void add_to(Wide& sum, const Wide& value) {
    for (Size p = 0; p < parts; ++p) sum.part[p] = combine<op, A>(sum.part[p], value.part[p]);
  }

  [[gnu::always_inline]] Stored result(Wide sum) const {
    if constexpr (op == ReduceOp::avg)
      if (arguments.complete)
        for (Size p = 0; p < parts; ++p) sum.part[p] = divide<A>(sum.part[p], arguments.ranks);
    return E::narrow(sum);
  }

  // `width` vectors at a time, from byte `at` on: enough to keep the loads of all sources under way.
  template <int width, bool streaming>
  [[gnu::always_inline]] void reduce_at(Size at) const {
    Wide sums[width];
#pragma GCC unroll 8
    for (int i = 0; i < width; ++i) sums[i] = first(arguments.sources[0] + at + i * stored_bytes);
    for (Size s = 1; s < arguments.source_count; ++s) {
      const std::byte* const source = arguments.sources[s] + at;
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) add_to(sums[i], input(source + i * stored_bytes));
    }
    Stored results[width];
#pragma GCC unroll 8
    for (int i = 0; i < width; ++i) results[i] = result(sums[i]);
    store_to<width, false>(arguments.targets, arguments.target_count, at, results);
    store_to<width, streaming>(arguments.streamed, arguments.streamed_count, at, results);
  }

  template <int width, bool streaming>
  [[gnu::always_inline]] static void store_to(std::byte* const* targets, Size count, Size at,
                                              const Stored (&results)[width]) {
    for (Size t = 0; t < count; ++t) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) store<streaming>(targets[t] + at + i * stored_bytes, results[i]);
    }
  }

  // Fewer elements than a vector has: through a vector of zeros.
  void reduce_rest(Size at, Size bytes) const {
    std::byte room[stored_bytes];
    const auto padded = [&](const std::byte* from) -> const std::byte* {
      copy_few(room, from + at, bytes);
      return room;
    };
    __builtin_memset(room, 0, sizeof room);
    Wide sum = first(padded(arguments.sources[0]));
    for (Size s = 1; s < arguments.source_count; ++s) add_to(sum, input(padded(arguments.sources[s])));
    store<false>(room, result(sum));
    for (Size t = 0; t < arguments.target_count; ++t) copy_few(arguments.targets[t] + at, room, bytes);
    for (Size t = 0; t < arguments.streamed_count; ++t) copy_few(arguments.streamed[t] + at, room, bytes);
  }

  // Less than a vector, without a call.
  [[gnu::always_inline]] static void copy_few(std::byte* to, const std::byte* from, Size bytes) {
    for (Size part = vector_bytes / 2; part > 0; part /= 2) {
      if ((bytes & part) == 0) continue;
      switch (part) {
        case 32:
          __builtin_memcpy(to, from, 32);
          break;
        case 16:
          __builtin_memcpy(to, from, 16);
          break;
        case 8:
          __builtin_memcpy(to, from, 8);
          break;
        case 4:
          __builtin_memcpy(to, from, 4);
          break;
        case 2:
          __builtin_memcpy(to, from, 2);
          break;
        default:
          __builtin_memcpy(to, from, 1);
      }
      to += part;
      from += part;
    }
  }

  template <bool streaming>
  void reduce_span(Size begin, Size end) const {
    constexpr int width = 4;
    Size at = begin;
    for (; at + width * stored_bytes <= end; at += width * stored_bytes) reduce_at<width, streaming>(at);
    for (; at + stored_bytes <= end; at += stored_bytes) reduce_at<1, false>(at);
    if (at < end) reduce_rest(at, end - at);
  }

  static Size until_line(const std::byte* target) {
    const Size past = reinterpret_cast<std::uintptr_t>(target) % cache_line;
    return past == 0 ? 0 : cache_line - past;
  }
  static bool is_between_elements(Size bytes) { return bytes % sizeof(T) == 0; }

  // Bytes until all streamed targets begin a cache line; all bytes, if they never do together.
  Size until_aligned(Size bytes) const {
    const Size head = until_line(arguments.streamed[0]);
    for (Size t = 1; t < arguments.streamed_count; ++t)
      if (until_line(arguments.streamed[t]) != head) return bytes;
    return head > bytes || !is_between_elements(head) ? bytes : head;
  }

  // A store across two lines takes twice as long as one within a line, a load hardly: so in long calls the
  // first target decides where vectors begin.
  void reduce_ordinary(Size bytes) const {
    constexpr Size long_enough = 16384;
    const Size until = bytes < long_enough ? 0 : until_line(arguments.targets[0]);
    const Size head = is_between_elements(until) ? until : 0;
    reduce_span<false>(0, head);
    reduce_span<false>(head, bytes);
  }

  void reduce() const {
    const Size bytes = arguments.count * sizeof(T);
    if (arguments.streamed_count == 0) return reduce_ordinary(bytes);
    const Size head = until_aligned(bytes);
    reduce_span<false>(0, head);
    reduce_span<true>(head, bytes);
    end_streaming();
  }
};

template <typename T, ReduceOp op>
void reduce_all(const ReduceArguments& arguments) {
  Reducer<T, op>(arguments).reduce();
}

template <typename T>
ReduceKernel kernel_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_all<T, ReduceOp::sum>;
    case ReduceOp::prod:
      return reduce_all<T, ReduceOp::prod>;
    case ReduceOp::max:
      return reduce_all<T, ReduceOp::max>;
    case ReduceOp::min:
      return reduce_all<T, ReduceOp::min>;
    case ReduceOp::avg:
      return reduce_all<T, ReduceOp::avg>;
    case ReduceOp::premul_sum:
      return reduce_all<T, ReduceOp::premul_sum>;
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
