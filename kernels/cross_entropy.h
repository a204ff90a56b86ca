// The cross-entropy loss of logits against labels.
//
// logits are f32, row-major, [rows, vocabulary]; labels [rows] are in [0, vocabulary), or ignore_label for
// rows that do not count. Spans belong to the caller. Functions keep no state and run on the calling thread.
// Throws Error (invalid_argument) if sizes do not fit together or a label is outside the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/vector_math.h"

namespace rondo {

inline constexpr std::int64_t ignore_label = -100;

// Sums over the rows that count. The mean is loss_sum / rows, once both are summed over all ranks.
struct CrossEntropy {
  double loss_sum = 0.0;
  std::size_t rows = 0;
};

// A row's loss is log(sum_j e^logit_j) - logit_label, with the largest logit taken out of the exponents.
// log_sum_exp [rows] gives the number of rows and is kept for the backward pass; ignored rows are left alone
// there.
CrossEntropy cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                           std::span<float> log_sum_exp);

// dlogits = scale * (softmax(logits) - onehot(label)), 0 in ignored rows; scale is 1 / (rows that count, on
// all ranks) for a mean. dlogits may be logits itself, and does not overlap it otherwise.
void cross_entropy_backward(std::span<const float> logits, std::span<const std::int64_t> labels,
                            std::span<const float> log_sum_exp, float scale, std::span<float> dlogits);

// The number of logits in a row; 0 where there are no rows. Throws as above.
std::size_t check_labels(std::size_t logits, std::span<const std::int64_t> labels);

// An element of scale * softmax(logits), for the CPU's loops and the GPU's.
RONDO_HOST_DEVICE inline float scaled_probability(float logit, float log_sum_exp, float scale) {
  return scale * fast_exp(logit - log_sum_exp);
}

}  // namespace rondo
