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

// Cosines and sines, [positions, half], half of a head's width, in memory that somebody else owns.
struct RopeTables {
  std::span<const float> cos, sin;
  std::size_t half;
};

enum class Rotation { forward, backward };

// Rotates x [batch, length, heads, 2 * half] in place, tokens at positions 0 to length - 1: (x_i, x_(i +
// half)) becomes (x_i cos - x_(i + half) sin, x_(i + half) cos + x_i sin). Backward is the inverse: it turns
// a gradient of the rotated values into that of the values before. Throws as Rope does.
void rotate(const RopeTables& tables, Rotation rotation, std::span<float> x, std::size_t length,
            std::size_t heads);
// Its check of the arguments.
void check_rotation(const RopeTables& tables, std::size_t elements, std::size_t length, std::size_t heads);

// Cosines and sines of position * theta^(-2i / head_dim) for i < head_dim / 2, computed in f32 as
// transformers does. Read-only once built: threads may share one. Throws Error (invalid_argument): from the
// constructor if head_dim is odd or 0, from the others if the size of x is not a multiple of length * heads *
// head_dim, or length exceeds positions.
class Rope {
 public:
  Rope(float theta, std::size_t head_dim, std::size_t positions);

  // rotate(), there and back.
  void rotate(std::span<float> x, std::size_t length, std::size_t heads) const;
  void rotate_backward(std::span<float> dx, std::size_t length, std::size_t heads) const;

  // Valid as long as this lives.
  RopeTables tables() const { return {cos_, sin_, half_}; }

 private:
  std::size_t half_;
  std::vector<float> cos_;  // [positions, head_dim / 2]
  std::vector<float> sin_;
};

}  // namespace rondo
