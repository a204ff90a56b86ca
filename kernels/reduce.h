// Reduction of any number of buffers into one or several, for every element type and operator.
// docs/numerics.md states the rules: f16 and bf16 accumulate in f32 and are rounded once; integers wrap; min
// and max propagate NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace rondo {

struct Reduction {
  DataType type;
  ReduceOp op;
  std::uint64_t scalar = 0;  // bits of premul_sum's factor, an element of `type` in the low bytes
  int ranks = 1;             // divisor of avg
};

// What the first source is: a rank's input, or the partial result of some ranks' inputs. All others are
// inputs.
enum class FirstSource { input, partial };
// Whether the result is complete: avg divides then.
enum class Result { partial, complete };
// How results are stored. Streaming passes the caches by: better for what would not stay in them until it is
// read.
enum class Stores { ordinary, streaming };

// Where results go, by kind of stores.
struct Targets {
  std::span<std::byte*const> ordinary, streaming;

  Targets(std::span<std::byte* const> targets, Stores stores = Stores::ordinary)
      : ordinary(stores == Stores::ordinary ? targets : std::span<std::byte* const>()),
        streaming(stores == Stores::streaming ? targets : std::span<std::byte* const>()) {}
  Targets(std::span<std::byte* const> with_ordinary, std::span<std::byte* const> with_streaming)
      : ordinary(with_ordinary), streaming(with_streaming) {}
};

// target[i] = sources[0][i] op sources[1][i] op ..., in this order, `count` elements, for each target. There
// is at least one source and one target. Any alignment, to the byte. A target may be one of the sources, and
// overlaps none otherwise. Loops for AVX2 or AVX-512 are chosen where the CPU has them; the bits are the
// same.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
            Result result, const Targets& targets, std::size_t count);

inline void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, FirstSource first,
                   Result result, std::byte* target, std::size_t count) {
  reduce(reduction, sources, first, result, Targets(std::span(&target, 1)), count);
}

// Copies `bytes` bytes to each target, reading them from memory once. A target may be the source, and
// overlaps it not otherwise.
void copy(const std::byte* source, const Targets& targets, std::size_t bytes);

}  // namespace rondo
