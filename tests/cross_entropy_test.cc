#include "kernels/cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::Doubles;
using test::expect_close;
using test::numeric_gradient;
using test::random_values;
using test::to_doubles;

using Labels = std::vector<std::int64_t>;

double reference_loss(const Doubles& logits, const Labels& labels) {
  const std::size_t vocabulary = logits.size() / labels.size();
  double loss = 0.0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == ignore_label) continue;
    const double* values = logits.data() + row * vocabulary;
    double sum = 0.0;
    for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(values[i]);
    loss += std::log(sum) - values[labels[row]];
  }
  return loss;
}

struct Case {
  std::size_t vocabulary;
  Labels labels;
  std::size_t counted;
};

class CrossEntropyCases : public testing::TestWithParam<Case> {
 protected:
  const Labels& labels_ = GetParam().labels;
  const std::vector<float> logits_ = random_values(GetParam().vocabulary * labels_.size(), 1);
  std::vector<float> log_sum_exp_ = std::vector<float>(labels_.size());
};

INSTANTIATE_TEST_SUITE_P(Cases, CrossEntropyCases,
                         testing::Values(Case{1, {0}, 1}, Case{5, {4, 0, 2}, 3},
                                         Case{33, {ignore_label, 32, 7, -100}, 2},
                                         Case{16, {ignore_label, ignore_label}, 0},
                                         Case{67, {0, 66, 64, 31, 1}, 5}));

TEST_P(CrossEntropyCases, Forward) {
  const CrossEntropy result = cross_entropy(logits_, labels_, log_sum_exp_);
  EXPECT_EQ(result.rows, GetParam().counted);
  EXPECT_NEAR(result.loss_sum, reference_loss(to_doubles(logits_), labels_), 5e-6);
}

TEST_P(CrossEntropyCases, Backward) {
  constexpr double scale = 0.25;
  cross_entropy(logits_, labels_, log_sum_exp_);
  std::vector<float> dlogits(logits_.size(), 7.0f);
  cross_entropy_backward(logits_, labels_, log_sum_exp_, static_cast<float>(scale), dlogits);
  const auto loss = [&](const Doubles& at) { return scale * reference_loss(at, labels_); };
  expect_close(dlogits, numeric_gradient(loss, to_doubles(logits_)), 1e-6);
  auto in_place = logits_;
  cross_entropy_backward(in_place, labels_, log_sum_exp_, static_cast<float>(scale), in_place);
  EXPECT_EQ(in_place, dlogits);
}

TEST(CrossEntropy, ShiftedLogitsGiveTheSameLoss) {
  const std::vector<float> near = {1.0f, 2.0f, 3.0f}, far = {100001.0f, 100002.0f, 100003.0f};
  std::vector<float> log_sum_exp(1), dlogits(3);
  const Labels labels = {1};
  const double loss = cross_entropy(near, labels, log_sum_exp).loss_sum;
  // One f32 step at 100000 is 0.0078.
  EXPECT_NEAR(cross_entropy(far, labels, log_sum_exp).loss_sum, loss, 0.0078);
  cross_entropy_backward(far, labels, log_sum_exp, 1.0f, dlogits);
  EXPECT_NEAR(dlogits[0], 0.0900306, 1e-3);
  EXPECT_NEAR(dlogits[1], 0.2447285 - 1.0, 3e-3);
}

TEST(CrossEntropy, IgnoredRowsMayHoldAnything) {
  const std::vector<float> logits = {NAN, INFINITY, 0.0f, 0.0f};
  std::vector<float> log_sum_exp(2), dlogits(4);
  const Labels labels = {ignore_label, 0};
  EXPECT_NEAR(cross_entropy(logits, labels, log_sum_exp).loss_sum, std::log(2.0), 1e-6);
  cross_entropy_backward(logits, labels, log_sum_exp, 1.0f, dlogits);
  expect_close(dlogits, {0.0, 0.0, -0.5, 0.5}, 1e-6);
}

TEST(CrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  const std::vector<float> logits(6);
  std::vector<float> log_sum_exp(2), dlogits(6);
  for (const std::int64_t label : {3, -1, -99}) {
    const Labels labels = {0, label};
    try {
      cross_entropy(logits, labels, log_sum_exp);
      FAIL() << "label " << label << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("label " + std::to_string(label) + " at position 1"));
    }
    EXPECT_THROW(cross_entropy_backward(logits, labels, log_sum_exp, 1.0f, dlogits), Error);
  }
  EXPECT_THROW(cross_entropy(std::vector<float>(5), Labels{0, 0}, log_sum_exp), Error);
}

}  // namespace
}  // namespace rondo
