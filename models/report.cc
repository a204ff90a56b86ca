#include "models/report.h"

#include "src/calls.h"
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

std::uint64_t measured_payload(const Ledger& ledger, const std::string& scope, CallKind kind) {
  std::uint64_t bytes = 0;
  for (const auto& [key, row] : ledger.rows())
    if (key.kind == kind && key.scope.starts_with(scope))
      bytes += sum_of(row.measured.of(ByteClass::payload));
  return bytes;
}

}  // namespace rondo
