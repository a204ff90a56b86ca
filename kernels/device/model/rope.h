// kernels/rope.h, on a device. Same bits.
#pragma once

#include "kernels/device/model/lane.h"
#include "kernels/rope.h"

namespace rondo::device {

struct Rotate {
  const float *cos, *sin;  // [positions, half]
  float* x;                // [rows, heads, 2 * half], a row a token
  std::size_t rows, length, heads, half;
  float direction;

  std::size_t groups() const { return rows * heads; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows * heads, [&](std::size_t head) {
      const std::size_t angles = head / heads % length * half;
      float* const low = x + head * 2 * half;
      for_each_in_row(lane, half, [&](std::size_t i) {
        rotate_pair(low[i], low[half + i], cos[angles + i], direction * sin[angles + i]);
      });
    });
  }
};

}  // namespace rondo::device
