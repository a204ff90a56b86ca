#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::dot;
using test::Doubles;
using test::expect_close;
using test::numeric_gradient;
using test::random_values;
using test::to_doubles;

std::size_t offset(const AttentionShape& shape, std::size_t heads, std::size_t sample, std::size_t token,
                   std::size_t head) {
  return ((sample * shape.length + token) * heads + head) * shape.head_dim;
}

// The output for one query, added to out.
void reference_row(const AttentionShape& shape, const double* q, const Doubles& k, const Doubles& v,
                   std::size_t sample, std::size_t token, std::size_t kv_head, double* out) {
  const std::size_t visible = shape.causal ? token + 1 : shape.length;
  Doubles weights(visible);
  double total = 0.0;
  for (std::size_t j = 0; j < visible; ++j) {
    const std::size_t key = offset(shape, shape.kv_heads, sample, j, kv_head);
    double score = 0.0;
    for (std::size_t d = 0; d < shape.head_dim; ++d) score += q[d] * k[key + d];
    weights[j] = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
    total += weights[j];
  }
  for (std::size_t j = 0; j < visible; ++j) {
    const std::size_t value = offset(shape, shape.kv_heads, sample, j, kv_head);
    for (std::size_t d = 0; d < shape.head_dim; ++d) out[d] += weights[j] / total * v[value + d];
  }
}

Doubles reference_attention(const AttentionShape& shape, const Doubles& q, const Doubles& k,
                            const Doubles& v) {
  Doubles out(q.size(), 0.0);
  const std::size_t group = shape.query_heads / shape.kv_heads;
  for (std::size_t sample = 0; sample < shape.batch; ++sample) {
    for (std::size_t token = 0; token < shape.length; ++token) {
      for (std::size_t head = 0; head < shape.query_heads; ++head) {
        const std::size_t at = offset(shape, shape.query_heads, sample, token, head);
        reference_row(shape, q.data() + at, k, v, sample, token, head / group, out.data() + at);
      }
    }
  }
  return out;
}

class Attention : public testing::TestWithParam<AttentionShape> {
 protected:
  const AttentionShape shape_ = GetParam();
  const std::size_t tokens_ = shape_.batch * shape_.length;
  const std::size_t query_size_ = tokens_ * shape_.query_heads * shape_.head_dim;
  const std::size_t kv_size_ = tokens_ * shape_.kv_heads * shape_.head_dim;
  const std::vector<float> q_ = random_values(query_size_, 1);
  const std::vector<float> k_ = random_values(kv_size_, 2);
  const std::vector<float> v_ = random_values(kv_size_, 3);
  const std::vector<float> dout_ = random_values(query_size_, 4);
  // Not 0: outputs are overwritten.
  std::vector<float> out_ = std::vector<float>(query_size_, 7.0f);
  std::vector<float> probabilities_ = std::vector<float>(tokens_ * shape_.query_heads * shape_.length, 7.0f);
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    testing::Values(AttentionShape{1, 1, 1, 1, 1, false}, AttentionShape{1, 3, 1, 1, 2, false},
                    AttentionShape{2, 5, 4, 2, 6, false}, AttentionShape{2, 5, 4, 2, 6, true},
                    AttentionShape{1, 7, 3, 1, 5, true}, AttentionShape{1, 19, 2, 2, 3, true}));

TEST_P(Attention, Forward) {
  attention(shape_, q_, k_, v_, out_, probabilities_);
  expect_close(out_, reference_attention(shape_, to_doubles(q_), to_doubles(k_), to_doubles(v_)), 5e-6);
}

TEST_P(Attention, Backward) {
  std::vector<float> dq(query_size_, 7.0f), dk(kv_size_, 7.0f), dv(kv_size_, 7.0f);
  attention(shape_, q_, k_, v_, out_, probabilities_);
  attention_backward(shape_, dout_, q_, k_, v_, probabilities_, dq, dk, dv);
  const Doubles q = to_doubles(q_), k = to_doubles(k_), v = to_doubles(v_), dout = to_doubles(dout_);
  const auto loss = [&](const Doubles& at_q, const Doubles& at_k, const Doubles& at_v) {
    return dot(reference_attention(shape_, at_q, at_k, at_v), dout);
  };
  expect_close(dq, numeric_gradient([&](const Doubles& at) { return loss(at, k, v); }, q), 1e-5);
  expect_close(dk, numeric_gradient([&](const Doubles& at) { return loss(q, at, v); }, k), 1e-5);
  expect_close(dv, numeric_gradient([&](const Doubles& at) { return loss(q, k, at); }, v), 1e-5);
}

// Scores of some hundreds: e^score is beyond f32, but not beyond f64.
TEST_P(Attention, LargeScores) {
  auto q = q_;
  for (float& value : q) value *= 100.0f;
  attention(shape_, q, k_, v_, out_, probabilities_);
  expect_close(out_, reference_attention(shape_, to_doubles(q), to_doubles(k_), to_doubles(v_)), 5e-4);
}

TEST(AttentionErrors, ShapesThatDoNotFit) {
  std::vector<float> q(24), kv(12), out(24), probabilities(12);
  EXPECT_NO_THROW(
      attention({1, 2, 3, 1, 4, true}, q, std::vector<float>(8), std::vector<float>(8), out, probabilities));
  EXPECT_THROW(attention({1, 2, 3, 2, 4, true}, q, kv, kv, out, probabilities), Error);
  EXPECT_THROW(attention({1, 2, 3, 1, 4, true}, q, kv, kv, out, probabilities), Error);
  EXPECT_THROW(attention({1, 0, 3, 1, 4, true}, {}, {}, {}, {}, {}), Error);
  EXPECT_THROW(attention({1, 2, 3, 0, 4, true}, q, {}, {}, out, probabilities), Error);
}

}  // namespace
}  // namespace rondo
