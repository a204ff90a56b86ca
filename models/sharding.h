// How FSDP2 cuts a parameter over N ranks: on dimension 0, into equal runs of rows, of which the last ranks'
// are shorter or empty. A row is all that lies behind one index of dimension 0. All functions are pure; they
// throw Error (invalid_argument) where `ranks` is below 1 or `rank` not in [0, ranks).
// Source: torch.distributed.fsdp.fully_shard, which cuts as torch.chunk does.
#pragma once

#include <cstddef>
#include <string_view>

#include "models/shape.h"

namespace rondo {

// Rows begin, ..., end - 1.
struct RowRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// ceil(rows / ranks), which rank 0 holds, and no rank more.
std::size_t rows_per_rank(std::size_t rows, int ranks);

// The rows that a rank holds. Empty at `rows` where there are none left for it.
RowRange shard_rows(std::size_t rows, int rank, int ranks);

// The rows that FSDP2 sends around in one all-gather: ranks * ceil(rows / ranks).
std::size_t padded_rows(std::size_t rows, int ranks);

// The shape of a rank's shard, of which dimension 0 may be 0. As FSDP2 does, refuses a scalar (Error,
// invalid_argument, with the parameter's name).
Shape shard_shape(std::string_view parameter, const Shape& shape, int rank, int ranks);

// The parameter's shape on FSDP2's wire, with dimension 0 padded. Refuses a scalar as shard_shape does.
Shape padded_shape(std::string_view parameter, const Shape& shape, int ranks);

}  // namespace rondo
