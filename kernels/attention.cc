#include "kernels/attention.h"

#include <algorithm>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/shape_check.h"
#include "kernels/vector_math.h"

namespace rondo {
namespace {

std::size_t query_size(const AttentionShape& shape) {
  return shape.batch * shape.length * shape.query_heads * shape.head_dim;
}

std::size_t kv_size(const AttentionShape& shape) {
  return shape.batch * shape.length * shape.kv_heads * shape.head_dim;
}

std::size_t head_score_size(const AttentionShape& shape) { return shape.length * shape.length; }

std::size_t score_size(const AttentionShape& shape) {
  return shape.batch * shape.query_heads * head_score_size(shape);
}

void check(const AttentionShape& shape) {
  if (query_size(shape) == 0 || kv_size(shape) == 0 || shape.query_heads % shape.kv_heads != 0) {
    fail(ErrorKind::invalid_argument,
         "attention: batch {}, length {}, query heads {}, key-value heads {}, head_dim {}; expected at least "
         "1 of "
         "each, and query heads a multiple of key-value heads",
         shape.batch, shape.length, shape.query_heads, shape.kv_heads, shape.head_dim);
  }
}

// The heads of a tensor [batch, length, heads, head_dim], each a matrix [length, head_dim].
class Heads {
 public:
  Heads(const AttentionShape& shape, std::size_t heads) : shape_(shape), heads_(heads) {}

  Matrix of(std::span<const float> tensor, std::size_t sample, std::size_t head) const {
    return {tensor.subspan(start(sample, head)), shape_.length, shape_.head_dim, stride()};
  }
  MutableMatrix of(std::span<float> tensor, std::size_t sample, std::size_t head) const {
    return {tensor.subspan(start(sample, head)), shape_.length, shape_.head_dim, stride()};
  }

 private:
  std::size_t stride() const { return heads_ * shape_.head_dim; }
  std::size_t start(std::size_t sample, std::size_t head) const {
    return sample * shape_.length * stride() + head * shape_.head_dim;
  }

  AttentionShape shape_;
  std::size_t heads_;
};

// Calls body(sample, query head, key-value head, start of the head's scores) for every query head.
template <typename Body>
void for_each_head(const AttentionShape& shape, Body body) {
  const std::size_t group = shape.query_heads / shape.kv_heads;
  std::size_t scores = 0;
  for (std::size_t sample = 0; sample < shape.batch; ++sample) {
    for (std::size_t head = 0; head < shape.query_heads; ++head) {
      body(sample, head, head / group, scores);
      scores += head_score_size(shape);
    }
  }
}

// row = softmax(scale * row)
void softmax(std::span<float> row, float scale) {
  const float largest = max_lanes(row.size(), row[0], [row](std::size_t i) { return row[i]; });
  for (float& value : row) value = fast_exp(scale * (value - largest));
  const float normalizer = 1.0f / sum_lanes(row.size(), [row](std::size_t i) { return row[i]; });
  for (float& value : row) value *= normalizer;
}

// Turns the scores of one head into probabilities.
void scores_to_probabilities(const AttentionShape& shape, std::span<float> scores) {
  for (std::size_t token = 0; token < shape.length; ++token) {
    const std::span<float> row = scores.subspan(token * shape.length, shape.length);
    const std::size_t visible = visible_to(shape, token);
    softmax(row.first(visible), score_scale(shape));
    std::ranges::fill(row.subspan(visible), 0.0f);
  }
}

// Turns the gradient of one head's probabilities into that of its scores. What a causal mask hides has
// probability 0, and so gets gradient 0.
void backward_through_softmax(const AttentionShape& shape, std::span<const float> probabilities,
                              std::span<float> gradient) {
  const float scale = score_scale(shape);
  for (std::size_t token = 0; token < shape.length; ++token) {
    const std::span<const float> p = probabilities.subspan(token * shape.length, shape.length);
    const std::span<float> d = gradient.subspan(token * shape.length, shape.length);
    const float projection = sum_lanes(shape.length, [p, d](std::size_t i) { return d[i] * p[i]; });
    for (std::size_t i = 0; i < shape.length; ++i) d[i] = score_gradient(p[i], d[i], projection, scale);
  }
}

}  // namespace

void attention(const AttentionShape& shape, std::span<const float> q, std::span<const float> k,
               std::span<const float> v, std::span<float> out, std::span<float> probabilities) {
  check(shape);
  expect_size("attention: q", q.size(), query_size(shape));
  expect_size("attention: k", k.size(), kv_size(shape));
  expect_size("attention: v", v.size(), kv_size(shape));
  expect_size("attention: out", out.size(), query_size(shape));
  expect_size("attention: probabilities", probabilities.size(), score_size(shape));
  const Heads query(shape, shape.query_heads);
  const Heads kv(shape, shape.kv_heads);
  for_each_head(shape, [&](std::size_t sample, std::size_t head, std::size_t kv_head, std::size_t scores) {
    const std::span<float> p = probabilities.subspan(scores, head_score_size(shape));
    const MutableMatrix p_matrix(p, shape.length, shape.length);
    matmul(query.of(q, sample, head), transposed(kv.of(k, sample, kv_head)), p_matrix);
    scores_to_probabilities(shape, p);
    matmul(p_matrix, kv.of(v, sample, kv_head), query.of(out, sample, head));
  });
}

void attention_backward(const AttentionShape& shape, std::span<const float> dout, std::span<const float> q,
                        std::span<const float> k, std::span<const float> v,
                        std::span<const float> probabilities, std::span<float> dq, std::span<float> dk,
                        std::span<float> dv) {
  check(shape);
  expect_size("attention_backward: dout", dout.size(), query_size(shape));
  expect_size("attention_backward: q", q.size(), query_size(shape));
  expect_size("attention_backward: k", k.size(), kv_size(shape));
  expect_size("attention_backward: v", v.size(), kv_size(shape));
  expect_size("attention_backward: probabilities", probabilities.size(), score_size(shape));
  expect_size("attention_backward: dq", dq.size(), query_size(shape));
  expect_size("attention_backward: dk", dk.size(), kv_size(shape));
  expect_size("attention_backward: dv", dv.size(), kv_size(shape));
  std::ranges::fill(dk, 0.0f);
  std::ranges::fill(dv, 0.0f);
  const Heads query(shape, shape.query_heads);
  const Heads kv(shape, shape.kv_heads);
  std::vector<float> ds(head_score_size(shape));
  const MutableMatrix ds_matrix(ds, shape.length, shape.length);
  for_each_head(shape, [&](std::size_t sample, std::size_t head, std::size_t kv_head, std::size_t scores) {
    const std::span<const float> p = probabilities.subspan(scores, head_score_size(shape));
    const Matrix p_matrix(p, shape.length, shape.length);
    const Matrix dout_head = query.of(dout, sample, head);
    matmul_add(transposed(p_matrix), dout_head, kv.of(dv, sample, kv_head));
    matmul(dout_head, transposed(kv.of(v, sample, kv_head)), ds_matrix);
    backward_through_softmax(shape, p, ds);
    matmul(ds_matrix, kv.of(k, sample, kv_head), query.of(dq, sample, head));
    matmul_add(transposed(ds_matrix), query.of(q, sample, head), kv.of(dk, sample, kv_head));
  });
}

}  // namespace rondo
