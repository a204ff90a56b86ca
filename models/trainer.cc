#include "models/trainer.h"

#include <algorithm>
#include <cmath>

namespace rondo {

// Every rank has the same loss and norm, so all take the same turn.
StepResult Trainer::step(std::span<const std::int64_t> ids, TokenShape shape) {
  const double loss = model_.forward(ids, shape);
  model_.zero_gradients();
  model_.backward(options_.loss_scale);
  const double norm = model_.gradient_norm() / options_.loss_scale;
  const bool overflowed = !std::isfinite(norm);
  if (!overflowed) {
    const double clip = std::min(1.0, options_.clip / (norm + 1e-6));
    model_.scale_gradients(static_cast<float>(clip / options_.loss_scale));
    AdamW adamw = options_.adamw;
    ++taken_;
    adamw.learning_rate *=
        std::min(1.0, static_cast<double>(taken_) / static_cast<double>(options_.warmup + 1));
    model_.step(adamw, static_cast<std::int64_t>(taken_));
  }
  adjust_loss_scale(overflowed);
  return {loss, norm, overflowed};
}

void Trainer::adjust_loss_scale(bool overflowed) {
  if (options_.loss_scale == 1.0f) return;
  good_since_overflow_ = overflowed ? 0 : good_since_overflow_ + 1;
  if (overflowed) options_.loss_scale = std::max(options_.loss_scale / 2, 2.0f);
  constexpr int steps_before_growth = 200;
  if (good_since_overflow_ == steps_before_growth) {
    options_.loss_scale = std::min(options_.loss_scale * 2, 0x1p24f);
    good_since_overflow_ = 0;
  }
}

}  // namespace rondo
