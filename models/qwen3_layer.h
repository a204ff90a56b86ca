// One Qwen3 decoder layer, forward and backward, on f32 activations. Source: transformers, modeling_qwen3.py.
// Nothing here communicates: the unit's parameters must be whole. All tensors are the Compute's.
#pragma once

#include <span>
#include <vector>

#include "kernels/rope.h"
#include "models/fsdp.h"
#include "models/qwen3_config.h"

namespace rondo {

// A layer's parameters, numbered as qwen3_layer_unit() lists them.
namespace layer_parameter {
enum : std::size_t {
  input_norm,
  q_proj,
  k_proj,
  v_proj,
  q_norm,
  k_norm,
  o_proj,
  post_attention_norm,
  gate_proj,
  up_proj,
  down_proj,
  count,
};
}  // namespace layer_parameter

// Samples and tokens of one rank's part of the batch.
struct TokenShape {
  std::size_t samples;
  std::size_t length;
  std::size_t tokens() const { return samples * length; }
};

// What forward keeps for backward. [tokens, width] each, unless said otherwise.
struct Qwen3LayerActivations {
  Values input, input_normed, input_inverse_rms;      // hidden; hidden; 1
  Values q_raw, k_raw, q_inverse_rms, k_inverse_rms;  // before the heads' norm; one a head
  Values q, k, v;                                     // after norm and RoPE
  Values probabilities;                               // [samples, heads, length, length]
  Values attended;                                    // heads x head_dim
  Values middle, middle_normed, middle_inverse_rms;   // after the first residual
  Values gate, up, fused;                             // intermediate
};

class Qwen3Layer {
 public:
  // The config and the Compute outlive the layer, and units are the same Compute's.
  Qwen3Layer(Compute& compute, const Qwen3Config& config, const Rope& rope);

  // input [tokens, hidden] moves into `kept`. Returns the layer's output, [tokens, hidden].
  Values forward(const FsdpUnit& unit, TokenShape shape, Values input, Qwen3LayerActivations& kept) const;
  // d_output [tokens, hidden]. Adds to the unit's gradients, returns the input's gradient.
  Values backward(FsdpUnit& unit, TokenShape shape, Values d_output, const Qwen3LayerActivations& kept) const;

 private:
  void attention_part(const FsdpUnit& unit, TokenShape shape, Qwen3LayerActivations& kept) const;
  Values mlp_part(const FsdpUnit& unit, TokenShape shape, Qwen3LayerActivations& kept) const;
  Values mlp_backward(FsdpUnit& unit, TokenShape shape, std::span<const float> d_output,
                      const Qwen3LayerActivations& kept) const;
  Values attention_backward_part(FsdpUnit& unit, TokenShape shape, std::span<const float> d_middle,
                                 const Qwen3LayerActivations& kept) const;

  std::size_t query_width() const { return config_.num_attention_heads * config_.head_dim; }
  std::size_t kv_width() const { return config_.num_key_value_heads * config_.head_dim; }
  float eps() const { return static_cast<float>(config_.rms_norm_eps); }

  Values values(std::size_t count) const { return {compute_, count}; }
  RopeTables rope() const { return {cos_, sin_, half_}; }

  Compute& compute_;
  const Qwen3Config& config_;
  Values cos_, sin_;  // of the rope
  std::size_t half_;
};

// y = x w^T for a weight [outputs, inputs], as torch's Linear has it; x [tokens, inputs].
Values linear(Compute& compute, std::span<const float> x, std::span<const float> weight, std::size_t tokens);
// dx = dy w; and d_weight += dy^T x.
Values linear_backward(Compute& compute, std::span<const float> dy, std::span<const float> x,
                       std::span<const float> weight, std::span<float> d_weight, std::size_t tokens);

}  // namespace rondo
