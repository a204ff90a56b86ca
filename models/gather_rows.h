// Brings together on rank 0 what the ranks hold rows of.
#pragma once

#include <span>
#include <vector>

#include "src/communicator.h"

namespace rondo {

// Collective. counts: the elements of each rank, the same list everywhere. Rank 0 gets all ranks' elements
// one after another, the others nothing. Booked under `scope`.
std::vector<float> gather_rows_to_first(Communicator& communicator, std::span<const float> mine,
                                        std::span<const std::size_t> counts, const char* scope);

}  // namespace rondo
