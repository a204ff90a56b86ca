// Reduction of any number of buffers into one or several, as one thread of many does its part: vectors of 16
// bytes in turn, every `threads`-th. The GPU runs it with the threads of a block or of a whole grid, and the
// CPU's tests as a plain function. Same rules and same bits as kernels/reduce.h.
#pragma once

#include "kernels/device/arithmetic.h"
#include "kernels/device/vector16.h"

namespace rondo::device {

// Ranks whose memory one kernel can reach.
inline constexpr int most_ranks = 32;

// A reduction of `count` elements, as a kernel is given it. There is at least one source and one target, of
// any alignment; a target may be one of the sources, and overlaps none otherwise.
struct ReduceWork {
  DataType type;
  ReduceOp op;
  std::uint64_t scalar;   // bits of premul_sum's factor
  int ranks;              // avg's divisor
  bool first_is_partial;  // the first source is a partial result, not a rank's input
  bool complete;          // the result is: avg divides
  int source_count, target_count;
  std::size_t count;
  const std::byte* sources[most_ranks];
  std::byte* targets[most_ranks];
};

// Which of the threads that share some work this one is.
struct Share {
  std::size_t thread, threads;
};

template <typename T, Loop loop>
struct StridedReducer {
  using E = Element<T>;
  using A = typename E::Accumulator;
  static constexpr unsigned lanes = 16 / sizeof(T);
  // Vectors that a thread has under way: enough loads to keep memory busy, at most 16 accumulators.
  static constexpr unsigned most_vectors = 16 / lanes < 4 ? 16 / lanes : 4;
  struct Stored {
    T lane[lanes];
  };

  const ReduceWork& work;
  A factor;
  bool scales, divides, greater;

  RONDO_HOST_DEVICE explicit StridedReducer(const ReduceWork& from)
      : work(from),
        factor(E::widen(load_element<T>(reinterpret_cast<const std::byte*>(&from.scalar)))),
        scales(from.op == ReduceOp::premul_sum),
        divides(from.op == ReduceOp::avg && from.complete),
        greater(from.op == ReduceOp::max) {}

  RONDO_HOST_DEVICE A input(T element) const {
    const A value = E::widen(element);
    if constexpr (loop == Loop::sum)
      if (scales) return multiply(value, factor);
    return value;
  }
  RONDO_HOST_DEVICE A first(T element) const {
    return work.first_is_partial ? E::widen(element) : input(element);
  }
  RONDO_HOST_DEVICE T result(A sum) const {
    if constexpr (loop == Loop::sum)
      if (divides) sum = divide(sum, work.ranks);
    return E::narrow(sum);
  }

  RONDO_HOST_DEVICE void reduce_element(std::size_t at) const {
    A sum = first(load_element<T>(work.sources[0] + at));
    for (int s = 1; s < work.source_count; ++s)
      sum = combine<loop>(sum, input(load_element<T>(work.sources[s] + at)), greater);
    const T value = result(sum);
    for (int t = 0; t < work.target_count; ++t) store_element(work.targets[t] + at, value);
  }

  // `width` vectors, `stride` bytes from one to the next: all loads of a source before its sums.
  template <unsigned width>
  RONDO_HOST_DEVICE void reduce_vectors(std::size_t at, std::size_t stride) const {
    A sums[width][lanes];
    Stored values[width];
    load_vectors(work.sources[0] + at, stride, values);
    RONDO_UNROLL
    for (unsigned v = 0; v < width; ++v) {
      RONDO_UNROLL
      for (unsigned lane = 0; lane < lanes; ++lane) sums[v][lane] = first(values[v].lane[lane]);
    }
    for (int s = 1; s < work.source_count; ++s) {
      load_vectors(work.sources[s] + at, stride, values);
      RONDO_UNROLL
      for (unsigned v = 0; v < width; ++v) {
        RONDO_UNROLL
        for (unsigned lane = 0; lane < lanes; ++lane)
          sums[v][lane] = combine<loop>(sums[v][lane], input(values[v].lane[lane]), greater);
      }
    }
    RONDO_UNROLL
    for (unsigned v = 0; v < width; ++v) {
      RONDO_UNROLL
      for (unsigned lane = 0; lane < lanes; ++lane) values[v].lane[lane] = result(sums[v][lane]);
    }
    for (int t = 0; t < work.target_count; ++t) {
      RONDO_UNROLL
      for (unsigned v = 0; v < width; ++v)
        store(work.targets[t] + at + v * stride, __builtin_bit_cast(Vector16, values[v]));
    }
  }

  template <unsigned width>
  RONDO_HOST_DEVICE static void load_vectors(const std::byte* from, std::size_t stride,
                                             Stored (&values)[width]) {
    RONDO_UNROLL
    for (unsigned v = 0; v < width; ++v) values[v] = __builtin_bit_cast(Stored, load(from + v * stride));
  }

  RONDO_HOST_DEVICE void reduce(Share share) const {
    const Cut cut(work.targets[0], work.count * sizeof(T), sizeof(T));
    const std::size_t lone = (cut.head + cut.tail) / sizeof(T);
    for (std::size_t i = share.thread; i < lone; i += share.threads)
      reduce_element(cut.lone_byte(i, sizeof(T)));
    std::size_t v = share.thread;
    for (; v + (most_vectors - 1) * share.threads < cut.vectors; v += most_vectors * share.threads)
      reduce_vectors<most_vectors>(cut.head + v * 16, share.threads * 16);
    for (; v < cut.vectors; v += share.threads) reduce_vectors<1>(cut.head + v * 16, 0);
  }
};

// Called and not inlined: there is one copy of each type's loops, which all kernels use.
template <typename T, Loop loop>
[[gnu::noinline]] RONDO_HOST_DEVICE void reduce_strided(const ReduceWork& work, Share share) {
  StridedReducer<T, loop>(work).reduce(share);
}

template <typename T>
RONDO_HOST_DEVICE inline void reduce_strided_of(const ReduceWork& work, Share share) {
  switch (work.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return reduce_strided<T, Loop::sum>(work, share);
    case ReduceOp::prod:
      // What wraps has the same bits with a sign and without.
      return reduce_strided<typename Wrapping<T>::type, Loop::product>(work, share);
    case ReduceOp::max:
    case ReduceOp::min:
      return reduce_strided<T, Loop::extremum>(work, share);
  }
}

// This thread's part of the reduction.
RONDO_HOST_DEVICE inline void reduce_strided(const ReduceWork& work, Share share) {
  switch (work.type) {
    case DataType::i8:
      return reduce_strided_of<std::int8_t>(work, share);
    case DataType::u8:
      return reduce_strided_of<std::uint8_t>(work, share);
    case DataType::i32:
      return reduce_strided_of<std::int32_t>(work, share);
    case DataType::u32:
      return reduce_strided_of<std::uint32_t>(work, share);
    case DataType::i64:
      return reduce_strided_of<std::int64_t>(work, share);
    case DataType::u64:
      return reduce_strided_of<std::uint64_t>(work, share);
    case DataType::f16:
      return reduce_strided_of<Half>(work, share);
    case DataType::f32:
      return reduce_strided_of<float>(work, share);
    case DataType::f64:
      return reduce_strided_of<double>(work, share);
    case DataType::bf16:
      return reduce_strided_of<BFloat16>(work, share);
  }
}

// This thread's part of a copy of `bytes` bytes to each target, read once.
RONDO_HOST_DEVICE inline void copy_strided(const std::byte* source, std::byte* const* targets,
                                           int target_count, std::size_t bytes, Share share) {
  const Cut cut(source, bytes, 1);
  for (std::size_t i = share.thread; i < cut.head + cut.tail; i += share.threads) {
    const std::size_t at = cut.lone_byte(i, 1);
    for (int t = 0; t < target_count; ++t) targets[t][at] = source[at];
  }
  constexpr unsigned width = 4;
  const std::size_t stride = share.threads * 16;
  std::size_t v = share.thread;
  for (; v + (width - 1) * share.threads < cut.vectors; v += width * share.threads) {
    const std::size_t at = cut.head + v * 16;
    Vector16 values[width];
    RONDO_UNROLL
    for (unsigned i = 0; i < width; ++i) values[i] = load(source + at + i * stride);
    for (int t = 0; t < target_count; ++t) {
      RONDO_UNROLL
      for (unsigned i = 0; i < width; ++i) store(targets[t] + at + i * stride, values[i]);
    }
  }
  for (; v < cut.vectors; v += share.threads) {
    const Vector16 value = load(source + cut.head + v * 16);
    for (int t = 0; t < target_count; ++t) store(targets[t] + cut.head + v * 16, value);
  }
}

}  // namespace rondo::device
