// The threads of a model's kernel stand in groups of 16: a group takes a row, each of its lanes every 16th
// element, and what they sum is combined as kernels/lanes.h combines it. So a row's sum has the bits of the
// CPU's.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/host_device.h"
#include "kernels/lanes.h"

namespace rondo::device {

inline constexpr unsigned group_lanes = 16;

// What the lanes of a group meet by where they are threads of the CPU: in tests.
class LanesOnTheCpu {
 public:
  virtual ~LanesOnTheCpu() = default;

  // Waits for all.
  virtual void meet() = 0;
  // The values of all.
  virtual std::array<double, group_lanes> exchange(std::size_t lane, double value) = 0;
};

// Which thread this is. On the CPU one thread does what all lanes of a group do: it is the only lane, unless
// they are there together.
struct Lane {
  std::size_t group, groups;
  std::size_t lane, lanes;
  LanesOnTheCpu* together = nullptr;

  RONDO_HOST_DEVICE std::size_t thread() const { return group * lanes + lane; }
  RONDO_HOST_DEVICE std::size_t threads() const { return groups * lanes; }
};

// Calls body(i) for this thread's share of 0, ..., count - 1, of which threads take turns.
template <typename Body>
RONDO_HOST_DEVICE inline void for_each_element(const Lane& lane, std::size_t count, Body body) {
  for (std::size_t i = lane.thread(); i < count; i += lane.threads()) body(i);
}

// Calls body(row) for this group's share of the rows, of which groups take turns.
template <typename Body>
RONDO_HOST_DEVICE inline void for_each_row(const Lane& lane, std::size_t rows, Body body) {
  for (std::size_t row = lane.group; row < rows; row += lane.groups) body(row);
}

// Calls body(i) for this lane's share of a row's elements.
template <typename Body>
RONDO_HOST_DEVICE inline void for_each_in_row(const Lane& lane, std::size_t width, Body body) {
  for (std::size_t i = lane.lane; i < width; i += lane.lanes) body(i);
}

#if defined(__CUDA_ARCH__)
// The lanes of this thread's group in its warp.
__device__ inline unsigned group_mask() { return 0xFFFFu << (threadIdx.x & group_lanes); }
#endif

// From here on each lane of the group sees what the others have written.
RONDO_HOST_DEVICE inline void meet_group(const Lane& lane) {
#if defined(__CUDA_ARCH__)
  static_cast<void>(lane);
  __syncwarp(group_mask());
#else
  if (lane.together != nullptr) lane.together->meet();
#endif
}

// Combines start, term(0), ..., term(count - 1); every lane gets the result. A lane computes the terms of the
// elements that for_each_in_row gives it.
template <typename T, typename Term, typename Combine>
RONDO_HOST_DEVICE inline T fold_row(const Lane& lane, std::size_t count, T start, Term term,
                                    Combine combine) {
#if defined(__CUDA_ARCH__)
  T mine = start;
  for (std::size_t i = lane.lane; i < count; i += group_lanes) mine = combine(mine, term(i));
  for (unsigned width = group_lanes / 2; width > 0; width /= 2)
    mine = combine(mine, __shfl_down_sync(group_mask(), mine, width, group_lanes));
  return __shfl_sync(group_mask(), mine, 0, group_lanes);
#else
  if (lane.together == nullptr) return fold_lanes(count, start, term, combine);
  T mine = start;
  for (std::size_t i = lane.lane; i < count; i += group_lanes) mine = combine(mine, term(i));
  const auto all = lane.together->exchange(lane.lane, double{mine});
  return fold_lanes(
      group_lanes, start, [&](std::size_t i) { return static_cast<T>(all[i]); }, combine);
#endif
}

template <typename Term>
RONDO_HOST_DEVICE inline auto sum_row(const Lane& lane, std::size_t count, Term term) {
  using T = decltype(term(std::size_t{0}));
  return fold_row(lane, count, T{0}, term, [](T a, T b) { return a + b; });
}

template <typename Term>
RONDO_HOST_DEVICE inline float max_row(const Lane& lane, std::size_t count, float start, Term term) {
  return fold_row(lane, count, start, term, [](float a, float b) { return a > b ? a : b; });
}

template <typename Term>
RONDO_HOST_DEVICE inline float mean_row(const Lane& lane, std::size_t width, Term term) {
  return sum_row(lane, width, term) / static_cast<float>(width);
}

// Groups for that many elements, one a lane.
RONDO_HOST_DEVICE constexpr std::size_t groups_for(std::size_t elements) {
  return (elements + group_lanes - 1) / group_lanes;
}

}  // namespace rondo::device
