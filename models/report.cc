#include "models/report.h"

#include <nlohmann/json.hpp>

#include "src/calls.h"
#include "src/collective.h"
#include "src/gather_bytes.h"

namespace rondo {

std::vector<ReportRow> merge_rows(Communicator& communicator, const std::vector<LocalRow>& rows) {
  const LedgerScope scope(communicator.ledger(), report_scope);
  const Seat seat{communicator.rank(), communicator.size()};
  std::vector<std::uint64_t> mine, all(2 * rows.size() * static_cast<std::size_t>(seat.size));
  for (const LocalRow& row : rows) mine.insert(mine.end(), {row.expected, row.measured});
  communicator.run(all_gather_call(seat, mine.data(), all.data(), mine.size(), DataType::u64));
  std::vector<ReportRow> merged;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    ReportRow& row = merged.emplace_back(ReportRow{rows[index], {}, {}});
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(seat.size); ++rank) {
      row.expected.push_back(all[rank * mine.size() + 2 * index]);
      row.measured.push_back(all[rank * mine.size() + 2 * index + 1]);
    }
  }
  return merged;
}

Algorithm algorithm_under(const Ledger& ledger, const std::string& scope, CallKind kind, std::size_t bytes,
                          Algorithm forced) {
  for (const auto& [key, row] : ledger.rows())
    if (key.scope.starts_with(scope) && key.memory == Memory::device) return Algorithm::direct;
  return choose_algorithm(kind, bytes, forced);
}

SentPayload::SentPayload(Communicator& communicator) {
  const std::string mine = communicator.ledger().json();
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::vector<std::string> ledgers = gather_bytes(communicator, mine);
  for (std::size_t mover = 0; mover < ledgers.size(); ++mover) {
    const auto ledger = nlohmann::json::parse(ledgers[mover]);
    for (const auto& row : ledger["rows"]) {
      std::uint64_t& bytes = bytes_[{row["scope"].get<std::string>(), row["collective"].get<std::string>()}];
      bytes += row["read_from"][rank].get<std::uint64_t>();
      if (mover == rank) bytes += sum_of(row["sent_to"].get<ByteCounts>());
    }
  }
}

template <typename Counts>
std::uint64_t SentPayload::sum(Counts counts) const {
  std::uint64_t total = 0;
  for (const auto& [key, bytes] : bytes_)
    if (counts(key.first, key.second)) total += bytes;
  return total;
}

std::uint64_t SentPayload::under(const std::string& scope, CallKind kind) const {
  return sum(
      [&](const auto& where, const auto& what) { return where.starts_with(scope) && what == name_of(kind); });
}

std::uint64_t SentPayload::under(const std::string& scope) const {
  return sum([&](const auto& where, const auto&) { return where.starts_with(scope); });
}

std::uint64_t SentPayload::at(const std::string& scope) const {
  return sum([&](const auto& where, const auto&) { return where == scope; });
}

std::uint64_t SentPayload::total() const {
  return sum([](const auto& where, const auto&) { return !is_report(where); });
}

}  // namespace rondo
