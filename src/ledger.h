// The ledger of one rank of one communicator: what was measured where bytes move, beside what the algorithm's
// formula expects, for each scope and collective.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/call.h"
#include "src/settings.h"
#include "src/traffic.h"

namespace rondo {

// Payload bytes that `rank` sends to each rank. The formulas of docs/algorithms.md, over the real chunk
// sizes; written independently of the schedules, so that the two can be held against one another.
// In the ring ranks stand by number.
ByteCounts expected_payload(const Call& call, Algorithm algorithm, int rank, int size);
// Payload bytes that `rank` reads straight from each rank's memory.
ByteCounts expected_fetched(const Call& call, Algorithm algorithm, int rank, int size);

struct Hosts;
// Where a rank stands: its right neighbour in the ring, and who is on which host.
struct Order {
  int right;
  const Hosts* hosts;  // null: all are on one
};

// Where a call's buffers lay: in host memory; or some of them in a device's, copied to the host and back; or
// all ranks' in devices', whose streams have moved what was moved.
enum class Memory { host, device_staged, device };
const char* name_of(Memory memory);

struct LedgerKey {
  std::string scope;
  CallKind kind;
  Algorithm algorithm;
  Memory memory = Memory::host;
  friend auto operator<=>(const LedgerKey&, const LedgerKey&) = default;
};

struct LedgerRow {
  std::uint64_t calls = 0;
  ByteCounts expected, expected_fetched;  // payload, by peer
  Traffic measured;                       // by peer
  CopiedBytes copied;

  explicit LedgerRow(int size)
      : expected(static_cast<std::size_t>(size)), expected_fetched(expected), measured(size) {}
};

// The scope of calls that only gather a report: a matrix or a table does not count its own making.
inline constexpr std::string_view report_scope = "(report)";
inline bool is_report(std::string_view scope) { return scope.ends_with(report_scope); }

// Scopes belong to the thread that makes the calls. The books may be read while another thread drives calls
// to their end: they are guarded by the mutex of whoever books, which is held already where a call is booked.
class Ledger {
 public:
  Ledger(int rank, int size, bool strict, std::mutex& mutex, Order order)
      : rank_(rank), size_(size), order_(order), strict_(strict), mutex_(mutex), refused_(size) {}
  // All ranks on one host.
  Ledger(int rank, int size, bool strict, std::mutex& mutex)
      : Ledger(rank, size, strict, mutex, {(rank + 1) % size, nullptr}) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Calls are booked under the innermost scope. Scopes nest by name: "model/layer 0/forward".
  void begin_scope(std::string_view name) {
    scopes_.push_back(scope().empty() ? std::string(name) : fmt::format("{}/{}", scope(), name));
  }
  void end_scope();
  const std::string& scope() const;

  // To be called with the mutex held. Books the bytes of one finished call. In strict mode throws when
  // payload or padding differ by a byte from the formula. What was copied to a device or from one makes host
  // memory a staged device's.
  void book(const std::string& scope, const CallSizes& call, Algorithm algorithm, const Traffic& moved,
            Memory memory = Memory::host, const CopiedBytes& copied = {});
  // A call that was refused has moved control lines, which stand in the total and in no row. A small call's
  // input stood beside them, and nobody took it: it is no payload.
  void book_refused(const Traffic& moved);

  std::map<LedgerKey, LedgerRow> rows() const;
  // All bytes since the last reset, but for those of reports.
  Traffic total() const;
  bool strict() const { return strict_; }
  void reset();
  std::string json() const;

 private:
  using Rows = std::map<LedgerKey, LedgerRow>;

  Rows::iterator row_of(const std::string& scope, CallKind kind, Algorithm algorithm, Memory memory);
  void check(Algorithm algorithm, const Traffic& moved) const;

  int rank_, size_;
  Order order_;
  bool strict_;
  std::vector<std::string> scopes_;
  std::mutex& mutex_;  // of what stands below
  Rows rows_;
  Rows::iterator last_ = rows_.end();  // the row booked last, most often the next one's too
  Traffic refused_;
  ByteCounts expected_, expected_fetched_;  // of the call that is being booked; here since calls are many
};

std::uint64_t sum_of(const ByteCounts& counts);

// Books what is done while it lives under a name.
class LedgerScope {
 public:
  LedgerScope(Ledger& ledger, std::string_view name) : ledger_(ledger) { ledger_.begin_scope(name); }
  ~LedgerScope() { ledger_.end_scope(); }
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  Ledger& ledger_;
};

}  // namespace rondo
