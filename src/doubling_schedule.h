// Recursive doubling as data: who exchanges what with whom. Pure functions.
#pragma once

#include <vector>

namespace rondo {

// The ranks in groups, as many as a power of two, and as many as can be. parties: the ranks that stand
// together, such as those of a host; where they are no power of two the first ones go together in twos. The
// first rank of each group speaks for it.
//
// In the round of distance d = 1, 2, 4 ... group g exchanges with group g ^ d what it has by then for what
// that one has.
std::vector<std::vector<int>> doubling_groups(const std::vector<std::vector<int>>& parties);
int group_of(const std::vector<std::vector<int>>& groups, int rank);

// In order: the ranks whose inputs group `group` has before the round of that distance ...
std::vector<int> held_before(const std::vector<std::vector<int>>& groups, int group, int distance);
// ... and those for whom it will need what comes in that round: itself, and whom it is to pass it on to.
std::vector<int> served_after(const std::vector<std::vector<int>>& groups, int group, int distance);

}  // namespace rondo
