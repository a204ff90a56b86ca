// Whole pages of memory.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace rondo {

inline std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Rounded up.
inline std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

}  // namespace rondo
