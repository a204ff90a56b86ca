#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/lanes.h"
#include "kernels/shape_check.h"
#include "kernels/vector_math.h"

namespace rondo {
namespace {

std::size_t check_shape(std::span<const float> logits, std::span<const std::int64_t> labels,
                        std::span<const float> log_sum_exp) {
  expect_size("cross_entropy: log_sum_exp", log_sum_exp.size(), labels.size());
  return check_labels(logits.size(), labels);
}

float log_sum_exp_of(std::span<const float> row) {
  const float largest = max_lanes(row.size(), row[0], [row](std::size_t i) { return row[i]; });
  return largest + std::log(sum_lanes(row.size(),
                                      [row, largest](std::size_t i) { return fast_exp(row[i] - largest); }));
}

}  // namespace

std::size_t check_labels(std::size_t logits, std::span<const std::int64_t> labels) {
  const std::size_t rows = labels.size();
  const std::size_t vocabulary = rows == 0 ? 0 : logits / rows;
  expect_size("cross_entropy: logits", logits, rows * vocabulary);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t label = labels[row];
    if (label != ignore_label && (label < 0 || static_cast<std::size_t>(label) >= vocabulary)) {
      fail(ErrorKind::invalid_argument, "label {} at position {} is not in the vocabulary of {}", label, row,
           vocabulary);
    }
  }
  return vocabulary;
}

CrossEntropy cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                           std::span<float> log_sum_exp) {
  const std::size_t vocabulary = check_shape(logits, labels, log_sum_exp);
  CrossEntropy total;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == ignore_label) continue;
    const std::span<const float> row_logits = logits.subspan(row * vocabulary, vocabulary);
    log_sum_exp[row] = log_sum_exp_of(row_logits);
    total.loss_sum += double{log_sum_exp[row]} - double{row_logits[static_cast<std::size_t>(labels[row])]};
    total.rows += 1;
  }
  return total;
}

void cross_entropy_backward(std::span<const float> logits, std::span<const std::int64_t> labels,
                            std::span<const float> log_sum_exp, float scale, std::span<float> dlogits) {
  const std::size_t vocabulary = check_shape(logits, labels, log_sum_exp);
  expect_size("cross_entropy_backward: dlogits", dlogits.size(), logits.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<float> gradient = dlogits.subspan(row * vocabulary, vocabulary);
    if (labels[row] == ignore_label) {
      std::ranges::fill(gradient, 0.0f);
      continue;
    }
    const std::span<const float> row_logits = logits.subspan(row * vocabulary, vocabulary);
    for (std::size_t i = 0; i < vocabulary; ++i)
      gradient[i] = scaled_probability(row_logits[i], log_sum_exp[row], scale);
    gradient[static_cast<std::size_t>(labels[row])] -= scale;
  }
}

}  // namespace rondo
