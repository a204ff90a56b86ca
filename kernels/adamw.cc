#include "kernels/adamw.h"

#include <cstddef>

#include "kernels/shape_check.h"

namespace rondo {

AdamWStep::AdamWStep(const AdamW& options, std::int64_t step) {
  if (step < 1) fail(ErrorKind::invalid_argument, "adamw_step: step is {}, expected 1 or more", step);
  const double correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step));
  keep = static_cast<float>(1.0 - options.learning_rate * options.weight_decay);
  blend1 = static_cast<float>(1.0 - options.beta1);
  decay2 = static_cast<float>(options.beta2);
  blend2 = static_cast<float>(1.0 - options.beta2);
  root_correction2 = static_cast<float>(std::sqrt(correction2));
  eps = static_cast<float>(options.eps);
  step_size = static_cast<float>(options.learning_rate / correction1);
}

void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                std::span<const float> gradient, std::span<float> first_moment,
                std::span<float> second_moment) {
  expect_size("adamw_step: gradient", gradient.size(), parameter.size());
  expect_size("adamw_step: first_moment", first_moment.size(), parameter.size());
  expect_size("adamw_step: second_moment", second_moment.size(), parameter.size());
  const AdamWStep one(options, step);
  for (std::size_t i = 0; i < parameter.size(); ++i)
    one.apply(parameter[i], gradient[i], first_moment[i], second_moment[i]);
}

}  // namespace rondo
