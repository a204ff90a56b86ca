#include "cli/style.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace rondo {
namespace {

int code_of(Style style) {
  switch (style) {
    case Style::plain:
      return 0;
    case Style::bold:
      return 1;
    case Style::dim:
      return 2;
    case Style::red:
      return 31;
    case Style::green:
      return 32;
    case Style::yellow:
      return 33;
    case Style::cyan:
      return 36;
  }
  return 0;
}

std::string paint_code(std::string_view text, int code) {
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

}  // namespace

bool colour_on(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return ::isatty(descriptor) == 1;
}

std::string paint(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::plain) return std::string(text);
  return paint_code(text, code_of(style));
}

std::string paint_by_number(std::string_view text, int number, bool colour) {
  constexpr std::array codes{36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91};
  if (!colour) return std::string(text);
  return paint_code(text, codes[static_cast<std::size_t>(number) % codes.size()]);
}

std::size_t width_of(std::string_view text) {
  // Every character of UTF-8 has one byte that does not begin with the bits 10.
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace rondo
