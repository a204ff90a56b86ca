// Spans of f32 to and from the stored element types f16, bf16 and f32.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/types.h"

namespace rondo {

// Exact. from holds to.size() elements of the type, at any alignment.
void to_f32(std::span<const std::byte> from, DataType type, std::span<float> to);

// Rounds to nearest, ties to even; an overflow becomes infinity, a NaN stays one.
void from_f32(std::span<const float> from, DataType type, std::span<std::byte> to);

// Both keep no state and run on the calling thread; the spans belong to the caller and do not overlap. They
// throw Error (invalid_argument) if the sizes do not fit together or the type is none of f16, bf16 and f32.

}  // namespace rondo
