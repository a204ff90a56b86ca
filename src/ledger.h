// The ledger of one rank of one communicator: what was measured where bytes move, beside what the algorithm's
// formula expects, for each scope and collective.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/call.h"
#include "src/settings.h"
#include "src/traffic.h"

namespace rondo {

// Payload bytes that `rank` sends to each rank. The formulas of docs/algorithms.md, over the real chunk
// sizes; written independently of the schedules, so that the two can be held against one another.
ByteCounts expected_payload(const Call& call, Algorithm algorithm, int rank, int size);
// Payload bytes that `rank` reads straight from each rank's memory.
ByteCounts expected_fetched(const Call& call, Algorithm algorithm, int rank, int size);

struct LedgerKey {
  std::string scope;
  CallKind kind;
  Algorithm algorithm;
  friend auto operator<=>(const LedgerKey&, const LedgerKey&) = default;
};

struct LedgerRow {
  std::uint64_t calls = 0;
  ByteCounts expected, expected_fetched;  // payload, by peer
  Traffic measured;                       // by peer

  explicit LedgerRow(int size)
      : expected(static_cast<std::size_t>(size)), expected_fetched(expected), measured(size) {}
};

// Scopes belong to the thread that makes the calls. The books may be read while another thread drives calls
// to their end.
class Ledger {
 public:
  Ledger(int rank, int size, bool strict) : rank_(rank), size_(size), strict_(strict), total_(size) {}

  // Calls are booked under the innermost scope. Scopes nest by name: "model/layer 0/forward".
  void begin_scope(const std::string& name) {
    scopes_.push_back(scope().empty() ? name : scope() + "/" + name);
  }
  void end_scope();
  const std::string& scope() const;

  // Books the bytes of one finished call. In strict mode throws when payload or padding differ by a byte from
  // the formula.
  void book(const std::string& scope, const Call& call, Algorithm algorithm, const Traffic& moved);
  // A call that was refused has moved control lines only: they stand in the total, and in no row.
  void book_refused(const Traffic& moved);

  std::map<LedgerKey, LedgerRow> rows() const;
  // All bytes since the last reset.
  Traffic total() const;
  bool strict() const { return strict_; }
  void reset();
  std::string json() const;

 private:
  void check(const Call& call, Algorithm algorithm, const LedgerRow& expected, const Traffic& moved) const;

  int rank_, size_;
  bool strict_;
  std::vector<std::string> scopes_;
  mutable std::mutex mutex_;  // of what stands below
  std::map<LedgerKey, LedgerRow> rows_;
  Traffic total_;
};

std::uint64_t sum_of(const ByteCounts& counts);

// Books what is done while it lives under a name.
class LedgerScope {
 public:
  LedgerScope(Ledger& ledger, const std::string& name) : ledger_(ledger) { ledger_.begin_scope(name); }
  ~LedgerScope() { ledger_.end_scope(); }
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  Ledger& ledger_;
};

}  // namespace rondo
