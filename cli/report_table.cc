#include "cli/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.h"

namespace rondo {
namespace {

std::string range_text(const std::vector<std::uint64_t>& by_rank) {
  const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
  return *least == *most ? grouped(*least) : fmt::format("{} to {}", grouped(*least), grouped(*most));
}

// The largest difference of any rank, with its sign.
std::int64_t difference(const ReportRow& row) {
  std::int64_t largest = 0;
  for (std::size_t rank = 0; rank < row.expected.size(); ++rank) {
    const auto one = static_cast<std::int64_t>(row.measured[rank] - row.expected[rank]);
    if (std::abs(one) > std::abs(largest)) largest = one;
  }
  return largest;
}

// Explanations stand beneath the table, numbered, so that its columns stay narrow.
class Notes {
 public:
  std::string mark(const std::string& note) {
    if (note.empty()) return "";
    auto known = std::find(notes_.begin(), notes_.end(), note);
    if (known == notes_.end()) known = notes_.insert(notes_.end(), note);
    return fmt::format("({})", known - notes_.begin() + 1);
  }
  void print() const {
    for (std::size_t index = 0; index < notes_.size(); ++index)
      fmt::print("  ({}) {}\n", index + 1, notes_[index]);
  }

 private:
  std::vector<std::string> notes_;
};

bool starts_new_part(const ReportRow& before, const ReportRow& row) {
  return (row.row.collective == "memory") != (before.row.collective == "memory") ||
         before.row.collective == "all";
}

void print_model(const std::string& model, const std::vector<ReportRow>& rows) {
  fmt::print("\n{}: bytes a rank\n", model);
  Table table({{"stage"},
               {"collective"},
               number_column("documented"),
               number_column("expected"),
               number_column("measured"),
               number_column("difference"),
               {"note"}});
  Notes notes;
  const ReportRow* before = nullptr;
  for (const ReportRow& row : rows) {
    if (row.row.model != model) continue;
    if (before != nullptr && starts_new_part(*before, row)) table.add_rule();
    before = &row;
    const std::int64_t gap = difference(row);
    table.add({row.row.stage,
               row.row.collective,
               row.row.documented.empty() ? "-" : row.row.documented,
               range_text(row.expected),
               range_text(row.measured),
               {fmt::format("{}", gap), gap == 0 ? Style::green : Style::red},
               notes.mark(row.row.note)});
  }
  table.print();
  notes.print();
}

}  // namespace

void print_report(const std::vector<ReportRow>& rows) {
  std::vector<std::string> printed;
  for (const ReportRow& row : rows) {
    if (std::find(printed.begin(), printed.end(), row.row.model) != printed.end()) continue;
    printed.push_back(row.row.model);
    print_model(row.row.model, rows);
  }
}

nlohmann::ordered_json report_json(const std::vector<ReportRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ReportRow& row : rows) {
    nlohmann::ordered_json one{{"model", row.row.model},
                               {"stage", row.row.stage},
                               {"collective", row.row.collective},
                               {"documented", nullptr},
                               {"documented_text", row.row.documented},
                               {"expected", row.expected},
                               {"measured", row.measured},
                               {"difference", difference(row)},
                               {"note", row.row.note}};
    if (row.row.documented_bytes) one["documented"] = *row.row.documented_bytes;
    list.push_back(std::move(one));
  }
  return list;
}

std::size_t inexact_rows(const std::vector<ReportRow>& rows) {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.exact(); }));
}

void print_matrix(const std::vector<std::uint64_t>& matrix, int size) {
  std::vector<Column> columns{{"from \\ to"}};
  for (int rank = 0; rank < size; ++rank) columns.push_back(number_column(fmt::format("rank {}", rank)));
  Table table(std::move(columns));
  for (int from = 0; from < size; ++from) {
    std::vector<Cell> cells{fmt::format("rank {}", from)};
    for (int to = 0; to < size; ++to) {
      const std::uint64_t bytes = matrix[static_cast<std::size_t>(from * size + to)];
      cells.push_back(bytes == 0 ? Cell(".", Style::dim) : Cell(bytes));
    }
    table.add(std::move(cells));
  }
  table.print();
}

}  // namespace rondo
