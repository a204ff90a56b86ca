// A rectangle of a row-major matrix: what a rank holds of a tensor that is cut by rows or by columns.
#pragma once

#include <cstddef>
#include <span>

#include "src/extent.h"

namespace rondo {

struct Patch {
  std::size_t first_row, rows;
  std::size_t first_column, columns;

  std::size_t elements() const { return rows * columns; }
};

// Run `part` of `parts` equal runs of the rows, or of the columns, of a [rows, columns] matrix. `parts`
// divides them.
Patch row_patch(std::size_t rows, std::size_t columns, int part, int parts);
Patch column_patch(std::size_t rows, std::size_t columns, int part, int parts);

// Where a patch lies in a matrix of `columns` columns, which holds it: an extent for each of its rows, or a
// single one where it is as wide as the matrix. The memory stays the caller's; who passes something constant
// may only read there.
Extents extents_of(const Patch& patch, std::span<const float> matrix, std::size_t columns);

// All of a vector, as one extent; none for an empty one. Constant or not as above.
Extents extents_of(std::span<const float> values);

}  // namespace rondo
