#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/error.h"
#include "tests/gradient_check.h"

namespace rondo {
namespace {

using test::Doubles;
using test::expect_close;
using test::random_values;
using test::to_doubles;

struct State {
  Doubles parameter, m, v;
};

// The paper's algorithm 2 in f64, the decay scaled by the learning rate as in torch.
void reference_step(const AdamW& options, int step, const std::vector<float>& gradient, State& state) {
  for (std::size_t i = 0; i < state.parameter.size(); ++i) {
    const double g = gradient[i];
    state.m[i] = options.beta1 * state.m[i] + (1.0 - options.beta1) * g;
    state.v[i] = options.beta2 * state.v[i] + (1.0 - options.beta2) * g * g;
    const double m_hat = state.m[i] / (1.0 - std::pow(options.beta1, step));
    const double v_hat = state.v[i] / (1.0 - std::pow(options.beta2, step));
    const double decay = options.learning_rate * options.weight_decay * state.parameter[i];
    state.parameter[i] -= decay + options.learning_rate * m_hat / (std::sqrt(v_hat) + options.eps);
  }
}

void check_steps(const AdamW& options) {
  constexpr std::size_t count = 37;
  auto parameter = random_values(count, 1);
  std::vector<float> m(count, 0.0f), v(count, 0.0f);
  State expected{to_doubles(parameter), Doubles(count, 0.0), Doubles(count, 0.0)};
  for (int step = 1; step <= 10; ++step) {
    const auto gradient = random_values(count, static_cast<std::uint32_t>(100 + step));
    adamw_step(options, step, parameter, gradient, m, v);
    reference_step(options, step, gradient, expected);
  }
  expect_close(parameter, expected.parameter, 1e-6);
  expect_close(m, expected.m, 1e-6);
  expect_close(v, expected.v, 1e-6);
}

TEST(AdamW, MatchesF64WithDefaults) { check_steps({}); }

// Large values, so that each hyper-parameter shows.
TEST(AdamW, MatchesF64WithOtherOptions) {
  check_steps({.learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 0.1, .weight_decay = 0.3});
}

TEST(AdamW, FirstStepHasTheLengthOfTheLearningRate) {
  std::vector<float> parameter = {1.0f, 1.0f, 1.0f}, m(3), v(3);
  const std::vector<float> gradient = {1e-3f, -50.0f, 0.0f};
  adamw_step({.learning_rate = 0.1, .weight_decay = 0.0}, 1, parameter, gradient, m, v);
  expect_close(parameter, {0.9, 1.1, 1.0}, 2e-6);
}

TEST(AdamW, RefusesBadArguments) {
  std::vector<float> parameter(3), m(3), v(3), two(2);
  EXPECT_THROW(adamw_step({}, 0, parameter, parameter, m, v), Error);
  EXPECT_THROW(adamw_step({}, 1, parameter, two, m, v), Error);
  EXPECT_THROW(adamw_step({}, 1, parameter, parameter, two, v), Error);
  EXPECT_THROW(adamw_step({}, 1, parameter, parameter, m, two), Error);
}

}  // namespace
}  // namespace rondo
