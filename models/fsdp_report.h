// The rows of document 1: what a training step of a sharded Qwen3 sends and holds.
#pragma once

#include <vector>

#include "models/qwen3.h"
#include "models/report.h"

namespace rondo {

// Payload bytes that a rank sends when a unit's parameters, as elements of `type`, are gathered or their
// gradients scattered: the formulas of docs/algorithms.md over the unit's real rows, from the parameters'
// shapes alone.
std::uint64_t expected_unit_bytes(const ParameterUnit& unit, CallKind kind, Algorithm algorithm,
                                  DataType type, int rank, int size);

// Collective: this rank's rows for everything since the ledger was last reset: `steps` forward and backward
// passes.
std::vector<LocalRow> fsdp_rows(Qwen3& model, FsdpTypes types, std::uint64_t steps);

}  // namespace rondo
