// kernels/cross_entropy.h, on a device. Same bits, but for the logarithm, which is the GPU's. The labels have
// been checked.
#pragma once

#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/device/model/lane.h"
#include "kernels/vector_math.h"

namespace rondo::device {

// losses[row]: of rows that count; 0 in the others.
struct CrossEntropyLosses {
  const float* logits;
  const std::int64_t* labels;
  float* log_sum_exp;
  double* losses;
  std::size_t rows, vocabulary;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const std::int64_t label = labels[row];
      double loss = 0.0;
      if (label != ignore_label) {
        const float* const x = logits + row * vocabulary;
        const float largest = max_row(lane, vocabulary, x[0], [&](std::size_t i) { return x[i]; });
        const float sum = sum_row(lane, vocabulary, [&](std::size_t i) { return fast_exp(x[i] - largest); });
        const float log_sum = largest + std::log(sum);
        if (lane.lane == 0) log_sum_exp[row] = log_sum;
        loss = double{log_sum} - double{x[label]};
      }
      if (lane.lane == 0) losses[row] = loss;
    });
  }
};

struct CrossEntropyBackward {
  const float* logits;
  const std::int64_t* labels;
  const float* log_sum_exp;
  float* dlogits;
  std::size_t rows, vocabulary;
  float scale;

  std::size_t groups() const { return rows; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, rows, [&](std::size_t row) {
      const std::int64_t label = labels[row];
      const float* const x = logits + row * vocabulary;
      for_each_in_row(lane, vocabulary, [&](std::size_t i) {
        float gradient = 0.0f;
        if (label != ignore_label) {
          gradient = scaled_probability(x[i], log_sum_exp[row], scale);
          if (i == static_cast<std::size_t>(label)) gradient -= scale;
        }
        dlogits[row * vocabulary + i] = gradient;
      });
    });
  }
};

}  // namespace rondo::device
