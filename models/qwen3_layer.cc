#include "models/qwen3_layer.h"

namespace rondo {
namespace {

namespace P = layer_parameter;

AttentionShape attention_shape(const Qwen3Config& config, TokenShape shape) {
  return {shape.samples,   shape.length, config.num_attention_heads, config.num_key_value_heads,
          config.head_dim, true};
}

}  // namespace

Values linear(Compute& compute, std::span<const float> x, std::span<const float> weight, std::size_t tokens) {
  const std::size_t inputs = x.size() / tokens, outputs = weight.size() / inputs;
  Values y(compute, tokens * outputs);
  compute.matmul(Matrix(x, tokens, inputs), transposed(Matrix(weight, outputs, inputs)),
                 MutableMatrix(y, tokens, outputs));
  return y;
}

Values linear_backward(Compute& compute, std::span<const float> dy, std::span<const float> x,
                       std::span<const float> weight, std::span<float> d_weight, std::size_t tokens) {
  const std::size_t inputs = x.size() / tokens, outputs = dy.size() / tokens;
  const Matrix gradient(dy, tokens, outputs);
  compute.matmul_add(transposed(gradient), Matrix(x, tokens, inputs),
                     MutableMatrix(d_weight, outputs, inputs));
  Values dx(compute, tokens * inputs);
  compute.matmul(gradient, Matrix(weight, outputs, inputs), MutableMatrix(dx, tokens, inputs));
  return dx;
}

Qwen3Layer::Qwen3Layer(Compute& compute, const Qwen3Config& config, const Rope& rope)
    : compute_(compute),
      config_(config),
      cos_(copy_to(compute, rope.tables().cos)),
      sin_(copy_to(compute, rope.tables().sin)),
      half_(rope.tables().half) {}

Values Qwen3Layer::forward(const FsdpUnit& unit, TokenShape shape, Values input,
                           Qwen3LayerActivations& kept) const {
  kept.input = std::move(input);
  attention_part(unit, shape, kept);
  Values output = mlp_part(unit, shape, kept);
  compute_.add(output, kept.middle);
  return output;
}

// middle = input + o_proj(attention(norm(input)))
void Qwen3Layer::attention_part(const FsdpUnit& unit, TokenShape shape, Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  kept.input_normed = values(kept.input.size());
  kept.input_inverse_rms = values(tokens);
  compute_.rms_norm(kept.input, unit.weight(P::input_norm), eps(), kept.input_normed, kept.input_inverse_rms);

  kept.q_raw = linear(compute_, kept.input_normed, unit.weight(P::q_proj), tokens);
  kept.k_raw = linear(compute_, kept.input_normed, unit.weight(P::k_proj), tokens);
  kept.v = linear(compute_, kept.input_normed, unit.weight(P::v_proj), tokens);

  kept.q = values(kept.q_raw.size());
  kept.k = values(kept.k_raw.size());
  kept.q_inverse_rms = values(tokens * config_.num_attention_heads);
  kept.k_inverse_rms = values(tokens * config_.num_key_value_heads);
  compute_.rms_norm(kept.q_raw, unit.weight(P::q_norm), eps(), kept.q, kept.q_inverse_rms);
  compute_.rms_norm(kept.k_raw, unit.weight(P::k_norm), eps(), kept.k, kept.k_inverse_rms);
  compute_.rotate(rope(), Rotation::forward, kept.q, shape.length, config_.num_attention_heads);
  compute_.rotate(rope(), Rotation::forward, kept.k, shape.length, config_.num_key_value_heads);

  kept.attended = values(tokens * query_width());
  kept.probabilities = values(tokens * config_.num_attention_heads * shape.length);
  compute_.attention(attention_shape(config_, shape), kept.q, kept.k, kept.v, kept.attended,
                     kept.probabilities);

  kept.middle = linear(compute_, kept.attended, unit.weight(P::o_proj), tokens);
  compute_.add(kept.middle, kept.input);
}

// down_proj(silu(gate_proj(n)) * up_proj(n)), n = norm(middle)
Values Qwen3Layer::mlp_part(const FsdpUnit& unit, TokenShape shape, Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  kept.middle_normed = values(kept.middle.size());
  kept.middle_inverse_rms = values(tokens);
  compute_.rms_norm(kept.middle, unit.weight(P::post_attention_norm), eps(), kept.middle_normed,
                    kept.middle_inverse_rms);
  kept.gate = linear(compute_, kept.middle_normed, unit.weight(P::gate_proj), tokens);
  kept.up = linear(compute_, kept.middle_normed, unit.weight(P::up_proj), tokens);
  kept.fused = values(kept.gate.size());
  compute_.swiglu(kept.gate, kept.up, kept.fused);
  return linear(compute_, kept.fused, unit.weight(P::down_proj), tokens);
}

Values Qwen3Layer::backward(FsdpUnit& unit, TokenShape shape, Values d_output,
                            const Qwen3LayerActivations& kept) const {
  Values d_middle = mlp_backward(unit, shape, d_output, kept);
  compute_.add(d_middle, d_output);
  Values d_input = attention_backward_part(unit, shape, d_middle, kept);
  compute_.add(d_input, d_middle);
  return d_input;
}

Values Qwen3Layer::mlp_backward(FsdpUnit& unit, TokenShape shape, std::span<const float> d_output,
                                const Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  const Values d_fused = linear_backward(compute_, d_output, kept.fused, unit.weight(P::down_proj),
                                         unit.gradient(P::down_proj), tokens);
  Values d_gate = values(d_fused.size()), d_up = values(d_fused.size());
  compute_.swiglu_backward(d_fused, kept.gate, kept.up, d_gate, d_up);
  Values d_normed = linear_backward(compute_, d_gate, kept.middle_normed, unit.weight(P::gate_proj),
                                    unit.gradient(P::gate_proj), tokens);
  compute_.add(d_normed, linear_backward(compute_, d_up, kept.middle_normed, unit.weight(P::up_proj),
                                         unit.gradient(P::up_proj), tokens));
  Values d_middle = values(d_normed.size());
  compute_.rms_norm_backward(d_normed, kept.middle, unit.weight(P::post_attention_norm),
                             kept.middle_inverse_rms, d_middle, unit.gradient(P::post_attention_norm));
  return d_middle;
}

Values Qwen3Layer::attention_backward_part(FsdpUnit& unit, TokenShape shape, std::span<const float> d_middle,
                                           const Qwen3LayerActivations& kept) const {
  const std::size_t tokens = shape.tokens();
  const Values d_attended = linear_backward(compute_, d_middle, kept.attended, unit.weight(P::o_proj),
                                            unit.gradient(P::o_proj), tokens);
  Values dq = values(kept.q.size()), dk = values(kept.k.size()), dv = values(kept.v.size());
  compute_.attention_backward(attention_shape(config_, shape), d_attended, kept.q, kept.k, kept.v,
                              kept.probabilities, dq, dk, dv);
  compute_.rotate(rope(), Rotation::backward, dq, shape.length, config_.num_attention_heads);
  compute_.rotate(rope(), Rotation::backward, dk, shape.length, config_.num_key_value_heads);

  Values dq_raw = values(dq.size()), dk_raw = values(dk.size());
  compute_.rms_norm_backward(dq, kept.q_raw, unit.weight(P::q_norm), kept.q_inverse_rms, dq_raw,
                             unit.gradient(P::q_norm));
  compute_.rms_norm_backward(dk, kept.k_raw, unit.weight(P::k_norm), kept.k_inverse_rms, dk_raw,
                             unit.gradient(P::k_norm));

  Values d_normed = linear_backward(compute_, dq_raw, kept.input_normed, unit.weight(P::q_proj),
                                    unit.gradient(P::q_proj), tokens);
  compute_.add(d_normed, linear_backward(compute_, dk_raw, kept.input_normed, unit.weight(P::k_proj),
                                         unit.gradient(P::k_proj), tokens));
  compute_.add(d_normed, linear_backward(compute_, dv, kept.input_normed, unit.weight(P::v_proj),
                                         unit.gradient(P::v_proj), tokens));
  Values d_input = values(d_normed.size());
  compute_.rms_norm_backward(d_normed, kept.input, unit.weight(P::input_norm), kept.input_inverse_rms,
                             d_input, unit.gradient(P::input_norm));
  return d_input;
}

}  // namespace rondo
