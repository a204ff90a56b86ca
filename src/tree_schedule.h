// A tree of ranks as data: from whom each one receives, and to whom it sends. Pure functions.
#pragma once

#include <vector>

namespace rondo {

// A binomial tree of positions 0 to size - 1: above a position stands the one without its lowest bit. As many
// rounds as size - 1 has bits, if each position serves one child a round, the largest subtree first.
int tree_parent(int position);                           // -1: position 0 has none
std::vector<int> tree_children(int position, int size);  // in the order in which they are served

struct TreeRole {
  int parent;  // -1: the root
  std::vector<int> children;
};
// Of `rank` in the tree of all. parties: the ranks that stand together, such as those of a host; each rank is
// in one. They are the positions of a binomial tree, from the root's on: one rank of each party, the root or
// the first, receives for it, serves other parties, and then the others of its own.
TreeRole role_in_tree(int rank, int root, const std::vector<std::vector<int>>& parties);

}  // namespace rondo
