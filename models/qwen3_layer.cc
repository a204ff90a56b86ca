#include "models/qwen3_layer.h"

#include "kernels/activation.h"
#include "kernels/arithmetic.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"

namespace rondo {
namespace {

namespace P = layer_parameter;

using Floats = std::vector<float>;

AttentionShape attention_shape(const Qwen3Config& config, TokenShape shape) {
  return {shape.samples,   shape.length, config.num_attention_heads, config.num_key_value_heads,
          config.head_dim, true};
}

}  // namespace

std::vector<float> linear(std::span<const float> x, std::span<const float> weight, std::size_t tokens) {
  const std::size_t inputs = x.size() / tokens, outputs = weight.size() / inputs;
  Floats y(tokens * outputs);
  matmul(Matrix(x, tokens, inputs), transposed(Matrix(weight, outputs, inputs)),
         MutableMatrix(y, tokens, outputs));
  return y;
}

std::vector<float> linear_backward(std::span<const float> dy, std::span<const float> x,
                                   std::span<const float> weight, std::span<float> d_weight,
                                   std::size_t tokens) {
  const std::size_t inputs = x.size() / tokens, outputs = dy.size() / tokens;
  const Matrix gradient(dy, tokens, outputs);
  matmul_add(transposed(gradient), Matrix(x, tokens, inputs), MutableMatrix(d_weight, outputs, inputs));
  Floats dx(tokens * inputs);
  matmul(gradient, Matrix(weight, outputs, inputs), MutableMatrix(dx, tokens, inputs));
  return dx;
}

std::vector<float> Qwen3Layer::forward(const FsdpUnit& unit, TokenShape shape, std::vector<float> input,
                                       Qwen3LayerActivations& kept) const {
  kept.input = std::move(input);
  attention_part(unit, shape, kept);
  Floats output = mlp_part(unit, shape, kept);
  add(output, kept.middle);
  return output;
}

// middle = input + o_proj(attention(norm(input)))
void Qwen3Layer::attention_part(const FsdpUnit& unit, TokenShape shape, Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  kept.input_normed.resize(kept.input.size());
  kept.input_inverse_rms.resize(tokens);
  rms_norm(kept.input, unit.weight(P::input_norm), eps(), kept.input_normed, kept.input_inverse_rms);

  kept.q_raw = linear(kept.input_normed, unit.weight(P::q_proj), tokens);
  kept.k_raw = linear(kept.input_normed, unit.weight(P::k_proj), tokens);
  kept.v = linear(kept.input_normed, unit.weight(P::v_proj), tokens);

  kept.q.resize(kept.q_raw.size());
  kept.k.resize(kept.k_raw.size());
  kept.q_inverse_rms.resize(tokens * config_.num_attention_heads);
  kept.k_inverse_rms.resize(tokens * config_.num_key_value_heads);
  rms_norm(kept.q_raw, unit.weight(P::q_norm), eps(), kept.q, kept.q_inverse_rms);
  rms_norm(kept.k_raw, unit.weight(P::k_norm), eps(), kept.k, kept.k_inverse_rms);
  rope_.rotate(kept.q, shape.length, config_.num_attention_heads);
  rope_.rotate(kept.k, shape.length, config_.num_key_value_heads);

  kept.attended.resize(tokens * query_width());
  kept.probabilities.resize(tokens * config_.num_attention_heads * shape.length);
  attention(attention_shape(config_, shape), kept.q, kept.k, kept.v, kept.attended, kept.probabilities);

  kept.middle = linear(kept.attended, unit.weight(P::o_proj), tokens);
  add(kept.middle, kept.input);
}

// down_proj(silu(gate_proj(n)) * up_proj(n)), n = norm(middle)
std::vector<float> Qwen3Layer::mlp_part(const FsdpUnit& unit, TokenShape shape,
                                        Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  kept.middle_normed.resize(kept.middle.size());
  kept.middle_inverse_rms.resize(tokens);
  rms_norm(kept.middle, unit.weight(P::post_attention_norm), eps(), kept.middle_normed,
           kept.middle_inverse_rms);
  kept.gate = linear(kept.middle_normed, unit.weight(P::gate_proj), tokens);
  kept.up = linear(kept.middle_normed, unit.weight(P::up_proj), tokens);
  kept.fused.resize(kept.gate.size());
  swiglu(kept.gate, kept.up, kept.fused);
  return linear(kept.fused, unit.weight(P::down_proj), tokens);
}

std::vector<float> Qwen3Layer::backward(FsdpUnit& unit, TokenShape shape, std::vector<float> d_output,
                                        const Qwen3LayerActivations& kept) const {
  Floats d_middle = mlp_backward(unit, shape, d_output, kept);
  add(d_middle, d_output);
  Floats d_input = attention_backward_part(unit, shape, d_middle, kept);
  add(d_input, d_middle);
  return d_input;
}

std::vector<float> Qwen3Layer::mlp_backward(FsdpUnit& unit, TokenShape shape, std::span<const float> d_output,
                                            const Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  const Floats d_fused =
      linear_backward(d_output, kept.fused, unit.weight(P::down_proj), unit.gradient(P::down_proj), tokens);
  Floats d_gate(d_fused.size()), d_up(d_fused.size());
  swiglu_backward(d_fused, kept.gate, kept.up, d_gate, d_up);
  Floats d_normed = linear_backward(d_gate, kept.middle_normed, unit.weight(P::gate_proj),
                                    unit.gradient(P::gate_proj), tokens);
  add(d_normed,
      linear_backward(d_up, kept.middle_normed, unit.weight(P::up_proj), unit.gradient(P::up_proj), tokens));
  Floats d_middle(d_normed.size());
  rms_norm_backward(d_normed, kept.middle, unit.weight(P::post_attention_norm), kept.middle_inverse_rms,
                    d_middle, unit.gradient(P::post_attention_norm));
  return d_middle;
}

std::vector<float> Qwen3Layer::attention_backward_part(FsdpUnit& unit, TokenShape shape,
                                                       std::span<const float> d_middle,
                                                       const Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  const Floats d_attended =
      linear_backward(d_middle, kept.attended, unit.weight(P::o_proj), unit.gradient(P::o_proj), tokens);
  Floats dq(kept.q.size()), dk(kept.k.size()), dv(kept.v.size());
  attention_backward(attention_shape(config_, shape), d_attended, kept.q, kept.k, kept.v, kept.probabilities,
                     dq, dk, dv);
  rope_.rotate_backward(dq, shape.length, config_.num_attention_heads);
  rope_.rotate_backward(dk, shape.length, config_.num_key_value_heads);

  Floats dq_raw(dq.size()), dk_raw(dk.size());
  rms_norm_backward(dq, kept.q_raw, unit.weight(P::q_norm), kept.q_inverse_rms, dq_raw,
                    unit.gradient(P::q_norm));
  rms_norm_backward(dk, kept.k_raw, unit.weight(P::k_norm), kept.k_inverse_rms, dk_raw,
                    unit.gradient(P::k_norm));

  Floats d_normed =
      linear_backward(dq_raw, kept.input_normed, unit.weight(P::q_proj), unit.gradient(P::q_proj), tokens);
  add(d_normed,
      linear_backward(dk_raw, kept.input_normed, unit.weight(P::k_proj), unit.gradient(P::k_proj), tokens));
  add(d_normed,
      linear_backward(dv, kept.input_normed, unit.weight(P::v_proj), unit.gradient(P::v_proj), tokens));
  Floats d_input(d_normed.size());
  rms_norm_backward(d_normed, kept.input, unit.weight(P::input_norm), kept.input_inverse_rms, d_input,
                    unit.gradient(P::input_norm));
  return d_input;
}

}  // namespace rondo
