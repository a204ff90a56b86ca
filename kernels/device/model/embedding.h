// kernels/embedding.h, on a device. Same bits. The ids have been checked.
#pragma once

#include <cstdint>

#include "kernels/device/model/lane.h"

namespace rondo::device {

struct GatherRows {
  const std::int64_t* ids;
  const float* table;
  float* out;
  std::size_t count, width;

  std::size_t groups() const { return count; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, count, [&](std::size_t row) {
      const float* const from = table + static_cast<std::size_t>(ids[row]) * width;
      for_each_in_row(lane, width, [&](std::size_t i) { out[row * width + i] = from[i]; });
    });
  }
};

// The first place of an id adds the gradients of all its places, in their order: nobody else writes to its
// row.
struct ScatterAddRows {
  const std::int64_t* ids;
  const float* dout;
  float* dtable;
  std::size_t count, width;

  std::size_t groups() const { return count; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, count, [&](std::size_t place) {
      if (!is_first(place)) return;
      for (std::size_t other = place; other < count; ++other) {
        if (ids[other] != ids[place]) continue;
        float* const row = dtable + static_cast<std::size_t>(ids[place]) * width;
        for_each_in_row(lane, width, [&](std::size_t i) { row[i] += dout[other * width + i]; });
      }
    });
  }

 private:
  RONDO_HOST_DEVICE bool is_first(std::size_t place) const {
    for (std::size_t other = 0; other < place; ++other)
      if (ids[other] == ids[place]) return false;
    return true;
  }
};

}  // namespace rondo::device
