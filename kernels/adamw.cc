#include "kernels/adamw.h"

#include <cmath>
#include <cstddef>

#include "kernels/shape_check.h"

namespace rondo {

void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                std::span<const float> gradient, std::span<float> first_moment,
                std::span<float> second_moment) {
  expect_size("adamw_step: gradient", gradient.size(), parameter.size());
  expect_size("adamw_step: first_moment", first_moment.size(), parameter.size());
  expect_size("adamw_step: second_moment", second_moment.size(), parameter.size());
  if (step < 1) fail(ErrorKind::invalid_argument, "adamw_step: step is {}, expected 1 or more", step);

  // As in torch, the scalars are computed in f64 and rounded once.
  const double correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step));
  const auto keep = static_cast<float>(1.0 - options.learning_rate * options.weight_decay);
  const auto blend1 = static_cast<float>(1.0 - options.beta1);
  const auto decay2 = static_cast<float>(options.beta2);
  const auto blend2 = static_cast<float>(1.0 - options.beta2);
  const auto root_correction2 = static_cast<float>(std::sqrt(correction2));
  const auto eps = static_cast<float>(options.eps);
  const auto step_size = static_cast<float>(options.learning_rate / correction1);

  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const float g = gradient[i];
    const float m = first_moment[i] + blend1 * (g - first_moment[i]);
    const float v = decay2 * second_moment[i] + blend2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    parameter[i] = keep * parameter[i] - step_size * (m / (std::sqrt(v) / root_correction2 + eps));
  }
}

}  // namespace rondo
