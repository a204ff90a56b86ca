// The rows of document 2: what a tensor-parallel transformer block sends.
#pragma once

#include <cstdint>
#include <vector>

#include "models/megatron.h"
#include "models/report.h"

namespace rondo {

// Elements that a rank sends in a call over `elements` on all ranks: the formulas of docs/algorithms.md, from
// the sizes alone. The ranks' shares are equal, but for one element more on the first ranks where they do not
// divide.
std::uint64_t elements_sent(CallKind kind, Algorithm algorithm, std::uint64_t elements, int rank, int size);

// How often a model has run since the ledger was last reset.
struct MegatronPasses {
  std::uint64_t layers = 1;
  std::uint64_t forward = 1;
  std::uint64_t backward = 1;
};

// Collective: this rank's rows for these passes of a MegatronModel: each place of the document, then the
// sums. No rows for backward passes where there was none.
std::vector<LocalRow> megatron_rows(Communicator& communicator, const MegatronConfig& config,
                                    const MegatronPasses& passes);

}  // namespace rondo
