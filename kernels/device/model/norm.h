// kernels/norm.h, on a device. Same bits.
#pragma once

#include <cmath>

#include "kernels/device/model/lane.h"
#include "kernels/norm.h"

namespace rondo::device {

struct RmsNorm {
  const float *x, *weight;  // [rows, width], [width]
  float *y, *inverse_rms;   // [rows, width], [rows]
  std::size_t rows, width;
  float eps;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const float* const in = x + row * width;
      const float mean = mean_row(lane, width, [&](std::size_t i) { return in[i] * in[i]; });
      const float inverse = 1.0f / std::sqrt(mean + eps);
      for_each_in_row(lane, width,
                      [&](std::size_t i) { y[row * width + i] = weight[i] * (in[i] * inverse); });
      if (lane.lane == 0) inverse_rms[row] = inverse;
    });
  }
};

struct RmsNormBackward {
  const float *dy, *x, *weight, *inverse_rms;
  float* dx;
  std::size_t rows, width;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const float* const in = x + row * width;
      const float* const dout = dy + row * width;
      const float inverse = inverse_rms[row];
      const float projection =
          mean_row(lane, width, [&](std::size_t i) { return weight[i] * dout[i] * (in[i] * inverse); });
      for_each_in_row(lane, width, [&](std::size_t i) {
        dx[row * width + i] = rms_norm_gradient(dout[i], weight[i], in[i] * inverse, inverse, projection);
      });
    });
  }
};

// Adds to dweight, a thread a column, in the order of the rows.
struct RmsNormWeightGradient {
  const float *dy, *x, *inverse_rms;
  float* dweight;
  std::size_t rows, width;

  std::size_t groups() const { return groups_for(width); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, width, [&](std::size_t i) {
      float sum = dweight[i];
      for (std::size_t row = 0; row < rows; ++row)
        sum += dy[row * width + i] * (x[row * width + i] * inverse_rms[row]);
      dweight[i] = sum;
    });
  }
};

struct LayerNorm {
  const float* x;
  float *y, *inverse_deviation;
  std::size_t rows, width;
  float eps;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const float* const in = x + row * width;
      const float center = mean_row(lane, width, [&](std::size_t i) { return in[i]; });
      const float variance =
          mean_row(lane, width, [&](std::size_t i) { return (in[i] - center) * (in[i] - center); });
      const float inverse = 1.0f / std::sqrt(variance + eps);
      for_each_in_row(lane, width, [&](std::size_t i) { y[row * width + i] = (in[i] - center) * inverse; });
      if (lane.lane == 0) inverse_deviation[row] = inverse;
    });
  }
};

struct LayerNormBackward {
  const float *dy, *y, *inverse_deviation;
  float* dx;
  std::size_t rows, width;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const float* const out = y + row * width;
      const float* const dout = dy + row * width;
      const float center = mean_row(lane, width, [&](std::size_t i) { return dout[i]; });
      const float projection = mean_row(lane, width, [&](std::size_t i) { return dout[i] * out[i]; });
      const float inverse = inverse_deviation[row];
      for_each_in_row(lane, width, [&](std::size_t i) {
        dx[row * width + i] = layer_norm_gradient(dout[i], out[i], inverse, center, projection);
      });
    });
  }
};

}  // namespace rondo::device
