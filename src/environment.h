// Reading environment variables, and what to say of a bad value.
#pragma once

#include <optional>
#include <string>

namespace rondo {

// Nothing where it is not set; it may be empty.
std::optional<std::string> value_of(const char* variable);

// Throws invalid_argument: NAME="value": expected ...
[[noreturn]] void bad_value(const char* variable, const std::string& value, const char* expected);

// The whole text must be a number from low to high: no blanks, no sign, no suffix, whatever errno was before.
// Else it is a bad value.
long long whole_number(const char* variable, const std::string& value, long long low, long long high,
                       const char* expected);

}  // namespace rondo
