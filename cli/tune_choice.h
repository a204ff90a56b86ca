// Which of several values of a setting is the quickest, from interleaved measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace rondo {

// Microseconds of one case with one value, in the order of the rounds.
using Rounds = std::vector<double>;

struct Candidate {
  std::size_t value;
  std::vector<const Rounds*> times;  // by case; the same object where two values do the same
};

struct Choice {
  std::size_t value;
  double gain;  // how many times as fast as with the standard value, where the two differ; 1: it stays
};

// The first candidate is the standard value. Another one takes its place only where it is quicker by
// least_gain over the cases in which the two differ, and no round contradicts it: a machine's speed drifts,
// so that a single round proves nothing.
inline constexpr double least_gain = 1.05;
Choice choose(const std::vector<Candidate>& candidates);

// For a threshold: what stands above it on its scale is done in one way, the rest in another.
struct TwoWays {
  std::size_t at;  // on the threshold's scale
  Rounds up_to, above;
};
Choice choose_threshold(std::size_t standard, const std::vector<TwoWays>& cases);

}  // namespace rondo
