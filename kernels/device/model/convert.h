// kernels/convert.h, on a device: f16 and bf16 to and from f32. Same bits.
#pragma once

#include "kernels/device/model/lane.h"
#include "kernels/half.h"

namespace rondo::device {

struct ToF32 {
  const std::uint16_t* from;
  float* to;
  std::size_t count;
  DataType type;  // f16, else bf16

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) {
      to[i] = type == DataType::f16 ? to_f32(Half{from[i]}) : to_f32(BFloat16{from[i]});
    });
  }
};

struct FromF32 {
  const float* from;
  std::uint16_t* to;
  std::size_t count;
  DataType type;  // f16, else bf16

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) {
      to[i] = type == DataType::f16 ? to_f16(from[i]).bits : to_bf16(from[i]).bits;
    });
  }
};

}  // namespace rondo::device
