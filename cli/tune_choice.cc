#include "cli/tune_choice.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace rondo {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Logarithms of how many times as fast a candidate is as the standard, by round, summed over the cases in
// which they differ.
struct Comparison {
  std::vector<double> gains;
  std::size_t cases = 0;

  Comparison(const Candidate& standard, const Candidate& other) {
    for (std::size_t i = 0; i < standard.times.size(); ++i) {
      const Rounds &before = *standard.times[i], &after = *other.times[i];
      if (&before == &after) continue;
      ++cases;
      gains.resize(before.size());
      for (std::size_t round = 0; round < gains.size(); ++round)
        gains[round] += std::log(before[round] / after[round]);
    }
  }

  double total() const { return median(gains); }
  double mean() const { return std::exp(total() / static_cast<double>(cases)); }
  bool proven() const {
    return cases > 0 && mean() >= least_gain &&
           std::all_of(gains.begin(), gains.end(), [](double gain) { return gain > 0; });
  }
};

}  // namespace

Choice choose(const std::vector<Candidate>& candidates) {
  Choice best{candidates.front().value, 1};
  double best_total = 0;
  for (const Candidate& candidate : candidates) {
    const Comparison comparison(candidates.front(), candidate);
    if (!comparison.proven() || comparison.total() <= best_total) continue;
    best = {candidate.value, comparison.mean()};
    best_total = comparison.total();
  }
  return best;
}

Choice choose_threshold(std::size_t standard, const std::vector<TwoWays>& cases) {
  const auto candidate = [&](std::size_t value) {
    Candidate made{value, {}};
    for (const TwoWays& one : cases) made.times.push_back(one.at > value ? &one.above : &one.up_to);
    return made;
  };
  std::set<std::size_t> values{0};
  for (const TwoWays& one : cases) values.insert(one.at);
  std::vector<Candidate> candidates{candidate(standard)};
  for (const std::size_t value : values) candidates.push_back(candidate(value));
  return choose(candidates);
}

}  // namespace rondo
