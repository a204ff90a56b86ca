#include "src/tree_schedule.h"

#include <algorithm>

namespace rondo {
namespace {

bool holds(const std::vector<int>& party, int rank) {
  return std::find(party.begin(), party.end(), rank) != party.end();
}

}  // namespace

int tree_parent(int position) { return position == 0 ? -1 : position & (position - 1); }

std::vector<int> tree_children(int position, int size) {
  std::vector<int> children;
  for (int bit = 1; position + bit < size && (position & bit) == 0; bit *= 2)
    children.insert(children.begin(), position + bit);
  return children;
}

TreeRole role_in_tree(int rank, int root, const std::vector<std::vector<int>>& parties) {
  const int size = static_cast<int>(parties.size());
  const auto number_of = [&](int of) {
    int number = 0;
    while (!holds(parties[static_cast<std::size_t>(number)], of)) ++number;
    return number;
  };
  const int first = number_of(root);
  const auto at = [&](int position) -> const std::vector<int>& {
    return parties[static_cast<std::size_t>((first + position) % size)];
  };
  const auto speaker = [&](int position) { return position == 0 ? root : at(position).front(); };

  const int position = (number_of(rank) + size - first) % size;
  if (rank != speaker(position)) return {speaker(position), {}};
  TreeRole role{position == 0 ? -1 : speaker(tree_parent(position)), {}};
  for (const int child : tree_children(position, size)) role.children.push_back(speaker(child));
  for (const int other : at(position))
    if (other != rank) role.children.push_back(other);
  return role;
}

}  // namespace rondo
