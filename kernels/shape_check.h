// The check that an argument has the number of elements its shape asks for.
#pragma once

#include <cstddef>
#include <string_view>

#include "src/error.h"

namespace rondo {

// Throws Error (invalid_argument) unless size == expected.
inline void expect_size(std::string_view argument, std::size_t size, std::size_t expected) {
  if (size != expected) {
    fail(ErrorKind::invalid_argument, "{} has {} elements, expected {}", argument, size, expected);
  }
}

}  // namespace rondo
