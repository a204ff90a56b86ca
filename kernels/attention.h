// Scaled dot-product attention with grouped query heads, causal or not: softmax(q k^T / sqrt(head_dim)) v per
// head (Vaswani et al., 2017; Ainslie et al., 2023, for the groups).
//
// All tensors are f32 and row-major; spans belong to the caller and do not overlap. Functions keep no state;
// they run on the calling thread, their products on as many as set_compute_threads says. Throws Error
// (invalid_argument) where sizes do not fit the shape, where an extent is 0, or where the query heads are no
// multiple of the key-value heads.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/host_device.h"

namespace rondo {

struct AttentionShape {
  std::size_t batch;
  std::size_t length;  // tokens of a sample, for queries and keys alike
  std::size_t query_heads;
  std::size_t kv_heads;  // head h serves the query heads h * g to h * g + g - 1, g = query_heads / kv_heads
  std::size_t head_dim;
  bool causal;  // a token sees itself and the tokens before it
};

// q, out [batch, length, query_heads, head_dim]; k, v [batch, length, kv_heads, head_dim].
// probabilities [batch, query_heads, length, length], the softmax's rows, are kept for the backward pass:
// they cost memory that grows with length squared, and spare computing the scores again.
void attention(const AttentionShape& shape, std::span<const float> q, std::span<const float> k,
               std::span<const float> v, std::span<float> out, std::span<float> probabilities);

// Overwrites dq, dk and dv (shaped as q, k, v) for the loss's gradient dout. dk and dv are sums over a
// group's query heads. With P the probabilities: dv = P^T dout, dP = dout v^T, dS = P * (dP - rowsum(dP * P))
// / sqrt(head_dim), dq = dS k, dk = dS^T q.
void attention_backward(const AttentionShape& shape, std::span<const float> dout, std::span<const float> q,
                        std::span<const float> k, std::span<const float> v,
                        std::span<const float> probabilities, std::span<float> dq, std::span<float> dk,
                        std::span<float> dv);

// ---- for the CPU's loops and the GPU's ----

// Tokens that a query sees, the first ones.
RONDO_HOST_DEVICE inline std::size_t visible_to(const AttentionShape& shape, std::size_t token) {
  return shape.causal ? token + 1 : shape.length;
}

RONDO_HOST_DEVICE inline float score_scale(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

// An element of dS, with projection the row's sum of dP * P.
RONDO_HOST_DEVICE inline float score_gradient(float p, float dp, float projection, float scale) {
  return p * (dp - projection) * scale;
}

}  // namespace rondo
