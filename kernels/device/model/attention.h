// kernels/attention.h, on a device: a group of lanes for each row of each head. Sums of products are in
// another order than the CPU's, but do not depend on the number of threads.
#pragma once

#include <cmath>

#include "kernels/attention.h"
#include "kernels/device/model/lane.h"
#include "kernels/vector_math.h"

namespace rondo::device {

// Where things lie in tensors [batch, length, heads, head_dim], for row number `row` of [batch, heads,
// length].
struct AttentionRow {
  std::size_t sample, head, token;

  RONDO_HOST_DEVICE AttentionRow(std::size_t row, std::size_t heads, std::size_t length)
      : sample(row / length / heads), head(row / length % heads), token(row % length) {}
};

RONDO_HOST_DEVICE inline std::size_t head_offset(const AttentionShape& shape, std::size_t heads,
                                                 std::size_t sample, std::size_t token, std::size_t head) {
  return ((sample * shape.length + token) * heads + head) * shape.head_dim;
}

struct Attention {
  AttentionShape shape;
  const float *q, *k, *v;
  float *out, *probabilities;

  std::size_t groups() const { return shape.batch * shape.query_heads * shape.length; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, shape.batch * shape.query_heads * shape.length, [&](std::size_t row) {
      const AttentionRow at(row, shape.query_heads, shape.length);
      float* const p = probabilities + row * shape.length;
      scores(lane, at, p);
      softmax(lane, visible_to(shape, at.token), p);
      meet_group(lane);
      mix(lane, at, p);
    });
  }

 private:
  RONDO_HOST_DEVICE std::size_t kv_offset(const AttentionRow& at, std::size_t token) const {
    return head_offset(shape, shape.kv_heads, at.sample, token,
                       at.head / (shape.query_heads / shape.kv_heads));
  }

  RONDO_HOST_DEVICE void scores(const Lane& lane, const AttentionRow& at, float* p) const {
    const float* const query = q + head_offset(shape, shape.query_heads, at.sample, at.token, at.head);
    const std::size_t visible = visible_to(shape, at.token);
    for (std::size_t token = 0; token < shape.length; ++token) {
      float score = 0.0f;
      if (token < visible) {
        const float* const key = k + kv_offset(at, token);
        score = sum_row(lane, shape.head_dim, [&](std::size_t i) { return query[i] * key[i]; });
      }
      if (token % lane.lanes == lane.lane) p[token] = score;
    }
  }

  RONDO_HOST_DEVICE void softmax(const Lane& lane, std::size_t visible, float* p) const {
    const float scale = score_scale(shape);
    // Up to meet_group() a lane reads only what it wrote itself.
    const float largest = max_row(lane, visible, -HUGE_VALF, [&](std::size_t i) { return p[i]; });
    for_each_in_row(lane, visible, [&](std::size_t i) { p[i] = fast_exp(scale * (p[i] - largest)); });
    const float normalizer = 1.0f / sum_row(lane, visible, [&](std::size_t i) { return p[i]; });
    for_each_in_row(lane, visible, [&](std::size_t i) { p[i] *= normalizer; });
  }

  RONDO_HOST_DEVICE void mix(const Lane& lane, const AttentionRow& at, const float* p) const {
    float* const to = out + head_offset(shape, shape.query_heads, at.sample, at.token, at.head);
    const std::size_t visible = visible_to(shape, at.token);
    for_each_in_row(lane, shape.head_dim, [&](std::size_t i) {
      float sum = 0.0f;
      for (std::size_t token = 0; token < visible; ++token) sum += p[token] * v[kv_offset(at, token) + i];
      to[i] = sum;
    });
  }
};

// dq, and dscores [batch, query_heads, length, length], which the gradients of keys need.
struct AttentionQueryGradient {
  AttentionShape shape;
  const float *dout, *k, *v, *probabilities;
  float *dq, *dscores;

  std::size_t groups() const { return shape.batch * shape.query_heads * shape.length; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, shape.batch * shape.query_heads * shape.length, [&](std::size_t row) {
      const AttentionRow at(row, shape.query_heads, shape.length);
      const std::size_t visible = visible_to(shape, at.token);
      const std::size_t kv_head = at.head / (shape.query_heads / shape.kv_heads);
      const std::size_t query = head_offset(shape, shape.query_heads, at.sample, at.token, at.head);
      const float* const p = probabilities + row * shape.length;
      float* const d = dscores + row * shape.length;
      for (std::size_t token = 0; token < visible; ++token) {
        const float* const value = v + head_offset(shape, shape.kv_heads, at.sample, token, kv_head);
        const float product =
            sum_row(lane, shape.head_dim, [&](std::size_t i) { return dout[query + i] * value[i]; });
        if (token % lane.lanes == lane.lane) d[token] = product;
      }
      const float projection = sum_row(lane, visible, [&](std::size_t i) { return d[i] * p[i]; });
      const float scale = score_scale(shape);
      for_each_in_row(lane, shape.length, [&](std::size_t i) {
        d[i] = i < visible ? score_gradient(p[i], d[i], projection, scale) : 0.0f;
      });
      meet_group(lane);
      for_each_in_row(lane, shape.head_dim, [&](std::size_t i) {
        float sum = 0.0f;
        for (std::size_t token = 0; token < visible; ++token)
          sum += d[token] * k[head_offset(shape, shape.kv_heads, at.sample, token, kv_head) + i];
        dq[query + i] = sum;
      });
    });
  }
};

// dk and dv, sums over the queries of a key's group of heads.
struct AttentionKeyValueGradient {
  AttentionShape shape;
  const float *dout, *q, *probabilities, *dscores;
  float *dk, *dv;

  std::size_t groups() const { return shape.batch * shape.kv_heads * shape.length; }
  RONDO_HOST_DEVICE void run(const Lane& lane) const {
    for_each_row(lane, shape.batch * shape.kv_heads * shape.length, [&](std::size_t row) {
      const AttentionRow at(row, shape.kv_heads, shape.length);
      const std::size_t key = head_offset(shape, shape.kv_heads, at.sample, at.token, at.head);
      for_each_in_row(lane, shape.head_dim,
                      [&](std::size_t i) { sum_queries(at, i, dk[key + i], dv[key + i]); });
    });
  }

 private:
  RONDO_HOST_DEVICE void sum_queries(const AttentionRow& at, std::size_t i, float& dkey,
                                     float& dvalue) const {
    const std::size_t group = shape.query_heads / shape.kv_heads;
    float key_sum = 0.0f, value_sum = 0.0f;
    for (std::size_t head = at.head * group; head < (at.head + 1) * group; ++head)
      for (std::size_t token = shape.causal ? at.token : 0; token < shape.length; ++token) {
        const std::size_t query = head_offset(shape, shape.query_heads, at.sample, token, head) + i;
        const std::size_t score =
            ((at.sample * shape.query_heads + head) * shape.length + token) * shape.length + at.token;
        value_sum += probabilities[score] * dout[query];
        key_sum += dscores[score] * q[query];
      }
    dkey = key_sum;
    dvalue = value_sum;
  }
};

}  // namespace rondo::device
