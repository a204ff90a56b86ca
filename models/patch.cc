#include "models/patch.h"

namespace rondo {
namespace {

Extent extent_at(std::span<const float> values, std::size_t first, std::size_t count) {
  return {reinterpret_cast<std::byte*>(const_cast<float*>(values.data() + first)), count * sizeof(float)};
}

}  // namespace

Patch row_patch(std::size_t rows, std::size_t columns, int part, int parts) {
  const std::size_t height = rows / static_cast<std::size_t>(parts);
  return {static_cast<std::size_t>(part) * height, height, 0, columns};
}

Patch column_patch(std::size_t rows, std::size_t columns, int part, int parts) {
  const std::size_t width = columns / static_cast<std::size_t>(parts);
  return {0, rows, static_cast<std::size_t>(part) * width, width};
}

Extents extents_of(const Patch& patch, std::span<const float> matrix, std::size_t columns) {
  if (patch.columns == columns) return {extent_at(matrix, patch.first_row * columns, patch.elements())};
  Extents extents;
  extents.reserve(patch.rows);
  for (std::size_t row = patch.first_row; row < patch.first_row + patch.rows; ++row)
    extents.push_back(extent_at(matrix, row * columns + patch.first_column, patch.columns));
  return extents;
}

Extents extents_of(std::span<const float> values) {
  if (values.empty()) return {};
  return {extent_at(values, 0, values.size())};
}

}  // namespace rondo
