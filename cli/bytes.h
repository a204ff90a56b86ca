// Sizes as people type them.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

// Such as "8", "32M" or "1G". Throws invalid_argument for anything else.
std::uint64_t parse_bytes(const std::string& text);

}  // namespace rondo
