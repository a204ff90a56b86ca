// Small vector arithmetic: residuals and norms of gradients.
//
// f32 spans of equal sizes that belong to the caller and do not overlap. Functions keep no state and run on
// the calling thread. Throws Error (invalid_argument) if the sizes differ.
#pragma once

#include <span>

namespace rondo {

// y += x
void add(std::span<float> y, std::span<const float> x);

// y += alpha * x
void add_scaled(std::span<float> y, float alpha, std::span<const float> x);

// The sum of x^2, in f64.
double sum_of_squares(std::span<const float> x);

}  // namespace rondo
