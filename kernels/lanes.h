// Sums and maxima in a fixed, interleaved order. A compiler may not reorder floating-point sums by itself;
// written in lanes they vectorise, and every compiler gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

namespace rondo {

// Combines start, term(0), ..., term(count - 1). Lane j takes the terms j, j + 16, ...; the lanes are
// combined last.
template <typename T, typename Term, typename Combine>
T fold_lanes(std::size_t count, T start, Term term, Combine combine) {
  constexpr std::size_t lane_count = 16;
  std::array<T, lane_count> lanes;
  lanes.fill(start);
  std::size_t i = 0;
  for (; i + lane_count <= count; i += lane_count) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = combine(lanes[lane], term(i + lane));
  }
  for (std::size_t lane = 0; i + lane < count; ++lane) lanes[lane] = combine(lanes[lane], term(i + lane));
  for (std::size_t width = lane_count / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] = combine(lanes[lane], lanes[lane + width]);
  }
  return lanes[0];
}

// term(0) + ... + term(count - 1), in the type that term returns.
template <typename Term>
auto sum_lanes(std::size_t count, Term term) {
  using T = decltype(term(std::size_t{0}));
  return fold_lanes(count, T{0}, term, std::plus<T>());
}

// The largest of start, term(0), ..., term(count - 1).
template <typename T, typename Term>
T max_lanes(std::size_t count, T start, Term term) {
  return fold_lanes(count, start, term, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace rondo
