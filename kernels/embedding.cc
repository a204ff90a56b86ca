#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/shape_check.h"

namespace rondo {
namespace {

void check_table(std::size_t table_size, std::size_t width) {
  if (width == 0 || table_size % width != 0) {
    fail(ErrorKind::invalid_argument, "embedding table has {} elements, expected a multiple of the width {}",
         table_size, width);
  }
}

}  // namespace

void check_ids(std::span<const std::int64_t> ids, std::size_t vocabulary) {
  for (std::size_t position = 0; position < ids.size(); ++position) {
    const std::int64_t id = ids[position];
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary) {
      fail(ErrorKind::invalid_argument, "token id {} at position {} is not in the vocabulary of {}", id,
           position, vocabulary);
    }
  }
}

void gather_rows(std::span<const std::int64_t> ids, std::span<const float> table, std::size_t width,
                 std::span<float> out) {
  check_table(table.size(), width);
  expect_size("gather_rows: out", out.size(), ids.size() * width);
  check_ids(ids, table.size() / width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = table.subspan(static_cast<std::size_t>(ids[i]) * width, width);
    std::ranges::copy(row, out.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
}

void scatter_add_rows(std::span<const std::int64_t> ids, std::span<const float> dout, std::size_t width,
                      std::span<float> dtable) {
  check_table(dtable.size(), width);
  expect_size("scatter_add_rows: dout", dout.size(), ids.size() * width);
  check_ids(ids, dtable.size() / width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = dtable.subspan(static_cast<std::size_t>(ids[i]) * width, width);
    const auto gradient = dout.subspan(i * width, width);
    for (std::size_t j = 0; j < width; ++j) row[j] += gradient[j];
  }
}

}  // namespace rondo
