// The activations of the feed-forward parts: SwiGLU (Qwen3) and exact GELU (the Megatron block).
//
// Element by element on f32 of equal sizes; spans belong to the caller. Functions keep no state and run on
// the calling thread. Throws Error (invalid_argument) if the sizes differ.
#pragma once

#include <span>

namespace rondo {

// out = silu(gate) * up, silu(x) = x / (1 + e^-x) (Shazeer, 2020). No overlap.
void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out);

// Overwrites dgate and dup for the loss's gradient dout; either may be dout itself, but not both:
// dup = dout * silu(gate), dgate = dout * up * s * (1 + gate * (1 - s)), s = 1 / (1 + e^-gate).
void swiglu_backward(std::span<const float> dout, std::span<const float> gate, std::span<const float> up,
                     std::span<float> dgate, std::span<float> dup);

// y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, 2016). No overlap.
void gelu(std::span<const float> x, std::span<float> y);

// dx = dy * (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi)); dx may be dy itself.
void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx);

}  // namespace rondo
