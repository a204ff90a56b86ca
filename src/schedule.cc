#include "src/schedule.h"

namespace rondo {
namespace {

template <typename StepAt>
std::vector<Step> steps_of(int count, StepAt step_at) {
  std::vector<Step> steps;
  for (int hop = 0; hop < count; ++hop) steps.push_back(step_at(hop));
  return steps;
}

}  // namespace

std::vector<Step> ring_reduce_scatter(int rank, int size) {
  return steps_of(size, [&](int hop) { return reduce_scatter_step(rank, size, hop); });
}

std::vector<Step> ring_all_gather(int rank, int size) {
  return steps_of(size, [&](int hop) { return all_gather_step(rank, size, hop); });
}

std::vector<Step> ring_all_reduce(int rank, int size) {
  return steps_of(2 * size - 1, [&](int hop) { return all_reduce_step(rank, size, hop); });
}

std::vector<Step> ring_broadcast(int rank, int size, int root) { return {broadcast_step(rank, size, root)}; }

std::vector<Step> ring_reduce(int rank, int size, int root) {
  const int distance = around(rank - root - 1, size);
  const bool first = distance == 0, last = rank == root;
  return {{0, !first, !first || last, last, !last}};
}

}  // namespace rondo
