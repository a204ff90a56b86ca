#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/error.h"

namespace rondo {
namespace {

constexpr std::size_t gap = 2;

// Pads by what a terminal shows: fmt would count the bytes of escape sequences.
std::string padded(const Cell& cell, std::size_t width, Align align, bool colour) {
  const std::string blanks(width - std::min(width, width_of(cell.text)), ' ');
  const std::string text = paint(cell.text, cell.style, colour);
  return align == Align::left ? text + blanks : blanks + text;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string group_digits(const std::string& digits) {
  std::string text;
  const std::size_t start = digits.starts_with('-') ? 1 : 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > start && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string time_text(double microseconds) {
  if (microseconds < 10) return fmt::format("{:.2f}", microseconds);
  return microseconds < 100 ? fmt::format("{:.1f}", microseconds) : grouped(std::llround(microseconds));
}

void Table::add(std::vector<Cell> cells) {
  if (cells.empty() || cells.size() > columns_.size())
    fail(ErrorKind::internal, "a row of {} cells in a table of {} columns", cells.size(), columns_.size());
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].title);
    for (const auto& row : rows_)
      if (!row.empty()) width = std::max(width, width_of(row[c].text));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::text(bool colour, std::size_t indent) const {
  const std::vector<std::size_t> all = widths();
  const std::string margin(indent, ' ');
  const auto line = [&](auto cell_at) {
    std::string text = margin;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text.append(gap, ' ');
      text += padded(cell_at(c), all[c], columns_[c].align, colour);
    }
    return without_trailing_blanks(std::move(text)) + "\n";
  };
  const auto rule = [&] {
    return line([&](std::size_t c) {
      std::string dashes;
      for (std::size_t i = 0; i < all[c]; ++i) dashes += "─";
      return Cell(dashes, Style::dim);
    });
  };
  std::string text;
  if (std::any_of(columns_.begin(), columns_.end(),
                  [](const Column& column) { return !column.title.empty(); }))
    text += line([&](std::size_t c) { return Cell(columns_[c].title, Style::bold); }) + rule();
  for (const auto& row : rows_) text += row.empty() ? rule() : line([&](std::size_t c) { return row[c]; });
  return text;
}

void Table::print(std::size_t indent) const { fmt::print("{}", text(colour_on(stdout), indent)); }

}  // namespace rondo
