// What is done element by element: residuals, scaling, activations, the optimizer, and the norm of gradients.
// Same bits as kernels/arithmetic.h, activation.h and adamw.h, but for sums of squares.
#pragma once

#include "kernels/activation_math.h"
#include "kernels/adamw.h"
#include "kernels/device/model/lane.h"

namespace rondo::device {

// y += x
struct Add {
  const float* x;
  float* y;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) { y[i] += x[i]; });
  }
};

// y = factor * y
struct Scale {
  float* y;
  std::size_t count;
  float factor;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) { y[i] *= factor; });
  }
};

// Rows of a matrix to another one, each with its own distance from row to row, in elements.
struct CopyRows {
  const float* from;
  float* to;
  std::size_t rows, width, from_stride, to_stride;

  std::size_t groups() const { return groups_for(rows * width); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, rows * width, [&](std::size_t i) {
      to[i / width * to_stride + i % width] = from[i / width * from_stride + i % width];
    });
  }
};

struct Swiglu {
  const float *gate, *up;
  float* out;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) { out[i] = swiglu_of(gate[i], up[i]); });
  }
};

struct SwigluBackward {
  const float *dout, *gate, *up;
  float *dgate, *dup;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) {
      const SwigluGradient gradient = swiglu_gradient_of(dout[i], gate[i], up[i]);
      dgate[i] = gradient.gate;
      dup[i] = gradient.up;
    });
  }
};

struct Gelu {
  const float* x;
  float* y;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) { y[i] = gelu_of(x[i]); });
  }
};

struct GeluBackward {
  const float *dy, *x;
  float* dx;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) { dx[i] = dy[i] * gelu_slope_of(x[i]); });
  }
};

struct AdamWUpdate {
  AdamWStep step;
  const float* gradient;
  float *parameter, *first_moment, *second_moment;
  std::size_t count;

  std::size_t groups() const { return groups_for(count); }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_element(lane, count, [&](std::size_t i) {
      step.apply(parameter[i], gradient[i], first_moment[i], second_moment[i]);
    });
  }
};

// sums[part]: of x^2 over each of `parts` equal runs of x, for the host to add up.
struct SumOfSquares {
  static constexpr std::size_t parts = 512;
  const float* x;
  double* sums;
  std::size_t count;

  std::size_t groups() const { return parts; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    const std::size_t length = (count + parts - 1) / parts;
    for_each_row(lane, parts, [&](std::size_t part) {
      const std::size_t begin = part * length < count ? part * length : count;
      const std::size_t end = begin + length < count ? begin + length : count;
      const double sum = sum_row(lane, end - begin,
                                 [&](std::size_t i) { return double{x[begin + i]} * double{x[begin + i]}; });
      if (lane.lane == 0) sums[part] = sum;
    });
  }
};

}  // namespace rondo::device
