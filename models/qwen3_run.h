// One forward and backward pass of a checkpoint over given samples, written to a file that anyone can hold
// against their own PyTorch.
#pragma once

#include <filesystem>

#include "models/qwen3.h"

namespace rondo {

struct Qwen3Run {
  double loss;
  std::size_t samples, length;
};

// The samples of a safetensors file with int64 `input_ids` [samples, tokens], or throws invalid_argument,
// naming file and tensor.
struct SampleFile {
  explicit SampleFile(const std::filesystem::path& path, std::size_t vocabulary);

  std::vector<std::int64_t> ids;
  std::size_t samples, length;
};

// Collective. Rank r takes the samples that shard_rows gives it. Rank 0 writes `logits` [samples, tokens,
// vocabulary], `loss` and `grad.NAME` for every parameter by transformers' name, all f32; it holds one of
// them whole at a time.
Qwen3Run run_qwen3(Qwen3& model, const SampleFile& file, const std::filesystem::path& out);

}  // namespace rondo
