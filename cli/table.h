// Plain text in aligned columns, as all commands print it.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/style.h"

namespace rondo {

// A whole number with thousands separators: 2,360,448.
template <std::integral Number>
std::string grouped(Number number);

// What stands in a cell. Whole numbers get thousands separators.
struct Cell {
  std::string text;
  Style style = Style::plain;

  Cell(std::string value, Style how = Style::plain) : text(std::move(value)), style(how) {}
  Cell(const char* value, Style how = Style::plain) : text(value), style(how) {}
  template <std::integral Number>
  Cell(Number value, Style how = Style::plain) : text(grouped(value)), style(how) {}
};

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

// A column of numbers.
inline Column number_column(std::string title) { return {std::move(title), Align::right}; }

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells at the end are empty. More cells than columns: an Error of ours (internal).
  void add(std::vector<Cell> cells);
  // A rule between the rows before and after.
  void add_rule();

  // Each line ends with a newline and starts with `indent` blanks. Without titles there is no head.
  std::string text(bool colour, std::size_t indent = 2) const;
  // To stdout, coloured where it is a terminal.
  void print(std::size_t indent = 2) const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  // a row without cells is a rule
};

std::string group_digits(const std::string& digits);
// Microseconds with three digits that mean something: 0.57, 23.0, 11,684.
std::string time_text(double microseconds);

template <std::integral Number>
std::string grouped(Number number) {
  return group_digits(std::to_string(number));
}

}  // namespace rondo
