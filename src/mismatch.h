// In what the calls of ranks differ that were to be one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/segment.h"

namespace rondo {

// The first field that differs between the ranks' descriptors, and who has which value. Nothing: all are
// alike.
std::optional<std::string> difference(std::span<const CallDescriptor> by_rank);

// "rank 3", "ranks 1, 2".
std::string list_of_ranks(const std::vector<int>& ranks);

}  // namespace rondo
