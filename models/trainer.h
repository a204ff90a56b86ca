// Training steps: forward, backward, clipping, AdamW, and a loss scale for f16.
#pragma once

#include <cstdint>
#include <span>

#include "models/qwen3.h"

namespace rondo {

struct TrainerOptions {
  AdamW adamw{3e-3, 0.9, 0.95, 1e-8, 0.1};
  std::uint64_t warmup = 10;  // steps over which the learning rate rises from 0
  double clip = 1.0;          // the norm to which longer gradients are shortened
  float loss_scale = 1.0f;  // for f16 65536: so that small gradients are not lost; halved when one overflows
};

struct StepResult {
  double loss;           // before the step, over all ranks' tokens
  double gradient_norm;  // before clipping
  bool skipped;          // the gradients overflowed: nothing was changed but the loss scale
};

class Trainer {
 public:
  // The model must outlive it.
  Trainer(Qwen3& model, TrainerOptions options) : model_(model), options_(options) {}

  // Collective; ids and shape as Qwen3::forward has them.
  StepResult step(std::span<const std::int64_t> ids, TokenShape shape);
  float loss_scale() const { return options_.loss_scale; }

 private:
  void adjust_loss_scale(bool overflowed);

  Qwen3& model_;
  TrainerOptions options_;
  std::uint64_t taken_ = 0;  // steps that changed the parameters
  int good_since_overflow_ = 0;
};

}  // namespace rondo
