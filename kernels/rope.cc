#include "kernels/rope.h"

#include <cmath>

#include "src/error.h"

namespace rondo {
namespace {

void rotate_head(float* head, std::size_t half, const float* cos, const float* sin, float direction) {
  for (std::size_t i = 0; i < half; ++i) rotate_pair(head[i], head[half + i], cos[i], direction * sin[i]);
}

}  // namespace

Rope::Rope(float theta, std::size_t head_dim, std::size_t positions)
    : half_(head_dim / 2), cos_(positions * half_), sin_(positions * half_) {
  if (head_dim == 0 || head_dim % 2 != 0) {
    fail(ErrorKind::invalid_argument, "Rope: head_dim is {}, expected an even number", head_dim);
  }
  for (std::size_t i = 0; i < half_; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / std::pow(theta, exponent);
    for (std::size_t position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      cos_[position * half_ + i] = std::cos(angle);
      sin_[position * half_ + i] = std::sin(angle);
    }
  }
}

void Rope::rotate(std::span<float> x, std::size_t length, std::size_t heads) const {
  rondo::rotate(tables(), Rotation::forward, x, length, heads);
}

void Rope::rotate_backward(std::span<float> dx, std::size_t length, std::size_t heads) const {
  rondo::rotate(tables(), Rotation::backward, dx, length, heads);
}

void check_rotation(const RopeTables& tables, std::size_t elements, std::size_t length, std::size_t heads) {
  const std::size_t positions = tables.cos.size() / tables.half;
  if (length > positions) {
    fail(ErrorKind::invalid_argument, "Rope: length is {}, expected at most {}", length, positions);
  }
  const std::size_t sample_size = length * heads * 2 * tables.half;
  if (sample_size == 0 || elements % sample_size != 0) {
    fail(ErrorKind::invalid_argument, "Rope: x has {} elements, expected a multiple of {} x {} x {}",
         elements, length, heads, 2 * tables.half);
  }
}

void rotate(const RopeTables& tables, Rotation rotation, std::span<float> x, std::size_t length,
            std::size_t heads) {
  check_rotation(tables, x.size(), length, heads);
  const std::size_t half = tables.half, token_size = heads * 2 * half;
  const float direction = rotation == Rotation::forward ? 1.0f : -1.0f;
  for (std::size_t start = 0; start < x.size(); start += token_size) {
    const std::size_t position = start / token_size % length;
    const float* cos = tables.cos.data() + position * half;
    const float* sin = tables.sin.data() + position * half;
    for (std::size_t head = 0; head < heads; ++head)
      rotate_head(x.data() + start + head * 2 * half, half, cos, sin, direction);
  }
}

}  // namespace rondo
