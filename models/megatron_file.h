// The Megatron block's tensors in safetensors files, so that anyone can hold a run against their own PyTorch.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "models/megatron_weights.h"

namespace rondo {

struct MegatronInput {
  MegatronConfig config;
  std::vector<float> x;
  MegatronWeights weights;  // whole
};

// Reads x [B, S, H], wq, wk, wv [H, H], w1 [H, F] and w2 [F, H], each f32, f16, bf16 or f64, as f32; other
// tensors in the file are left alone. `config` gives what their shapes do not tell. Throws Error, which names
// the file and the tensor: (system) where the file cannot be read, (invalid_usage) where it is no safetensors
// file, or a tensor is missing or has another shape or type.
MegatronInput read_megatron_input(const std::filesystem::path& path, const MegatronConfig& config);

// What a forward and backward pass has made; views of the caller's memory.
struct MegatronOutput {
  std::span<const float> out;  // [B, S, H], as is dx
  float loss;
  std::span<const float> dx;
  const MegatronWeights& gradients;  // whole
};

// Writes `out`, `loss` (a scalar), `grad.x`, `grad.wq` and so on, f32. The file appears when it is complete,
// else what stood there stays. Throws Error (system).
void write_megatron_output(const std::filesystem::path& path, const MegatronConfig& config,
                           const MegatronOutput& output);

}  // namespace rondo
