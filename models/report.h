// Rows of `rondo ledger`: what a document says, what the formula says and what was measured, side by side.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
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

// Whose formula tells what calls of a kind and so many bytes move that were booked under a scope that starts
// with `scope`: that of how they are chosen. On devices' memory they go on windows at every size, which move
// as much as direct.
Algorithm algorithm_under(const Ledger& ledger, const std::string& scope, CallKind kind, std::size_t bytes,
                          Algorithm forced);

// The payload bytes that this rank has sent since the ledger's last reset, by scope and collective, wherever
// they were counted: a peer that reads this rank's memory counts what it reads.
class SentPayload {
 public:
  // Collective.
  explicit SentPayload(Communicator& communicator);

  // In calls of `kind` booked under a scope that starts with `scope`; of all kinds; and in all calls but
  // those of reports.
  std::uint64_t under(const std::string& scope, CallKind kind) const;
  std::uint64_t under(const std::string& scope) const;
  std::uint64_t total() const;
  // Under this very scope, and not below it.
  std::uint64_t at(const std::string& scope) const;

 private:
  template <typename Counts>
  std::uint64_t sum(Counts counts) const;

  std::map<std::pair<std::string, std::string>, std::uint64_t> bytes_;  // by scope and collective
};

}  // namespace rondo
