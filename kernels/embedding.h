// Token embedding: looking rows up in a table, and adding gradients back to them.
//
// The table is f32, row-major, [vocabulary, width]; spans belong to the caller and do not overlap. Functions
// keep no state and run on the calling thread. Throws Error (invalid_argument), before anything is written,
// if sizes do not fit together or an id is not in [0, vocabulary).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo {

// out[i] = table[ids[i]], out [ids, width].
void gather_rows(std::span<const std::int64_t> ids, std::span<const float> table, std::size_t width,
                 std::span<float> out);

// dtable[ids[i]] += dout[i], in the order of i, dout [ids, width].
void scatter_add_rows(std::span<const std::int64_t> ids, std::span<const float> dout, std::size_t width,
                      std::span<float> dtable);

// Throws invalid_argument unless all ids are in [0, vocabulary).
void check_ids(std::span<const std::int64_t> ids, std::size_t vocabulary);

}  // namespace rondo
