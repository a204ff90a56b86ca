// Rotary position embedding (Su et al., 2021) in the layout of transformers' Qwen3: the first half of a head
// is rotated against its second half.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/host_device.h"

namespace rondo {

// (low, high) becomes (low cos - high sin, high cos + low sin).
RONDO_HOST_DEVICE inline void rotate_pair(float& low, float& high, float cos, float sin) {
  const float low_before = low, high_before = high;
  low = low_before * cos - high_before * sin;
  high = high_before * cos + low_before * sin;
}

// Cosines and sines of position * theta^(-2i / head_dim) for i < head_dim / 2, computed in f32 as
// transformers does. Read-only once built: threads may share one. Throws Error (invalid_argument): from the
// constructor if head_dim is odd or 0, from the others if the size of x is not a multiple of length * heads *
// head_dim, or length exceeds positions.
class Rope {
 public:
  Rope(float theta, std::size_t head_dim, std::size_t positions);

  // Rotates x [batch, length, heads, head_dim] in place, tokens at positions 0 to length - 1:
  // (x_i, x_(i + d/2)) becomes (x_i cos - x_(i + d/2) sin, x_(i + d/2) cos + x_i sin).
  void rotate(std::span<float> x, std::size_t length, std::size_t heads) const;

  // The backward pass: turns a gradient of the rotated values, in place, into that of the values before: the
  // inverse rotation.
  void rotate_backward(std::span<float> dx, std::size_t length, std::size_t heads) const;

  // [positions, head_dim / 2].
  const std::vector<float>& cosines() const { return cos_; }
  const std::vector<float>& sines() const { return sin_; }

 private:
  void apply(std::span<float> x, std::size_t length, std::size_t heads, float direction) const;

  std::size_t half_;
  std::size_t positions_;
  std::vector<float> cos_;  // [positions, head_dim / 2]
  std::vector<float> sin_;
};

}  // namespace rondo
