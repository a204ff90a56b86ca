#include "cli/bytes.h"

#include <charconv>

#include "src/error.h"

namespace rondo {

std::uint64_t parse_bytes(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string unit(rest, end);
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "K" || unit == "k") shift = 10;
  if (unit == "M" || unit == "m") shift = 20;
  if (unit == "G" || unit == "g") shift = 30;
  if (error != std::errc() || shift < 0 || number > (std::uint64_t{1} << 50 >> shift))
    fail(ErrorKind::invalid_argument, "size \"{}\": expected a number of bytes, such as 8, 64K, 32M or 1G",
         text);
  return number << shift;
}

}  // namespace rondo
