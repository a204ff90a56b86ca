#include "src/environment.h"

#include <charconv>
#include <cstdlib>

#include "src/error.h"

namespace rondo {

std::optional<std::string> value_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

void bad_value(const char* name, const std::string& value, const char* expected) {
  fail(ErrorKind::invalid_argument, "{}=\"{}\": expected {}", name, value, expected);
}

long long whole_number(const char* name, const std::string& value, long long low, long long high,
                       const char* expected) {
  long long number = 0;
  const char* end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped != end || number < low || number > high)
    bad_value(name, value, expected);
  return number;
}

}  // namespace rondo
