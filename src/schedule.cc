#include "src/schedule.h"

namespace rondo {
namespace {

int around(int position, int size) { return (position % size + size) % size; }

}  // namespace

std::vector<Step> ring_reduce_scatter(int rank, int size) {
  std::vector<Step> steps;
  for (int hop = 0; hop < size; ++hop) {
    const bool first = hop == 0, last = hop == size - 1;
    steps.push_back({around(rank - 1 - hop, size), !first, !first || last, last, !last});
  }
  return steps;
}

std::vector<Step> ring_all_gather(int rank, int size) {
  std::vector<Step> steps;
  for (int hop = 0; hop < size; ++hop) {
    const bool first = hop == 0, last = hop == size - 1;
    steps.push_back({around(rank - hop, size), !first, false, true, !last});
  }
  return steps;
}

std::vector<Step> ring_all_reduce(int rank, int size) {
  std::vector<Step> steps = ring_reduce_scatter(rank, size);
  const std::vector<Step> gather = ring_all_gather(rank, size);
  steps.back().send = gather.front().send;
  steps.insert(steps.end(), gather.begin() + 1, gather.end());
  return steps;
}

std::vector<Step> ring_broadcast(int rank, int size, int root) {
  const int distance = around(rank - root, size);
  return {{0, distance != 0, false, true, distance != size - 1}};
}

std::vector<Step> ring_reduce(int rank, int size, int root) {
  const int distance = around(rank - root - 1, size);
  const bool first = distance == 0, last = rank == root;
  return {{0, !first, !first || last, last, !last}};
}

}  // namespace rondo
