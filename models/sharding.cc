#include "models/sharding.h"

#include <algorithm>

#include "src/error.h"

namespace rondo {
namespace {

// The shape with another size of dimension 0.
Shape with_rows(const Shape& shape, std::size_t rows) {
  Shape result = shape;
  result.front() = rows;
  return result;
}

void require_rows(std::string_view parameter, const Shape& shape) {
  if (shape.empty()) {
    fail(ErrorKind::invalid_argument,
         "parameter '{}' is a scalar: sharding needs a dimension 0; give it the shape [1]", parameter);
  }
}

}  // namespace

std::size_t rows_per_rank(std::size_t rows, int ranks) {
  if (ranks < 1) fail(ErrorKind::invalid_argument, "sharding over {} ranks: expected 1 or more", ranks);
  const auto divisor = static_cast<std::size_t>(ranks);
  return rows / divisor + (rows % divisor != 0 ? 1 : 0);
}

RowRange shard_rows(std::size_t rows, int rank, int ranks) {
  const std::size_t share = rows_per_rank(rows, ranks);
  if (rank < 0 || rank >= ranks) {
    fail(ErrorKind::invalid_argument, "shard of rank {}: expected a rank from 0 to {}", rank, ranks - 1);
  }
  const std::size_t begin = std::min(static_cast<std::size_t>(rank) * share, rows);
  return {begin, begin + std::min(share, rows - begin)};
}

std::size_t padded_rows(std::size_t rows, int ranks) {
  return rows_per_rank(rows, ranks) * static_cast<std::size_t>(ranks);
}

Shape shard_shape(std::string_view parameter, const Shape& shape, int rank, int ranks) {
  require_rows(parameter, shape);
  return with_rows(shape, shard_rows(shape.front(), rank, ranks).size());
}

Shape padded_shape(std::string_view parameter, const Shape& shape, int ranks) {
  require_rows(parameter, shape);
  return with_rows(shape, padded_rows(shape.front(), ranks));
}

}  // namespace rondo
