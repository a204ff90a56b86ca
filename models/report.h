// Rows of `rondo ledger`: what a document says, what the formula says and what was measured, side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator.h"

namespace rondo {

// One row as one rank sees it.
struct LocalRow {
  std::string model;       // "qwen3 fsdp", "megatron tp"
  std::string stage;       // "layer 0 forward"
  std::string collective;  // "all-gather", or "memory" for bytes held
  std::string documented;  // the document's own figure, such as "3.54 MB"; empty where it gives none
  std::string note;        // explains a difference between document and formula
  std::uint64_t expected;  // by the formula, bytes that this rank sends, or holds
  std::uint64_t measured;  // where bytes move, or at allocation and free
  std::optional<std::uint64_t> documented_bytes = std::nullopt;  // the documented figure, as exact as it is
};

// The same for all ranks: expected and measured by rank.
struct ReportRow {
  LocalRow row;  // rank 0's
  std::vector<std::uint64_t> expected, measured;

  bool exact() const { return expected == measured; }
};

// Collective: every rank gives the same rows with its own figures.
std::vector<ReportRow> merge_rows(Communicator& communicator, const std::vector<LocalRow>& rows);

// Payload bytes that this rank has sent in calls of `kind` booked under a scope that starts with `scope`.
std::uint64_t measured_payload(const Ledger& ledger, const std::string& scope, CallKind kind);

}  // namespace rondo
