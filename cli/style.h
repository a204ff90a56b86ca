// Colour, where it helps: only on a terminal, and not where NO_COLOR is set.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace rondo {

enum class Style { plain, bold, dim, red, green, yellow, cyan };

// Whether text for this stream or descriptor may be coloured.
bool colour_on(int descriptor);
inline bool colour_on(std::FILE* stream) { return colour_on(::fileno(stream)); }

std::string paint(std::string_view text, Style style, bool colour);

// Colour by number, such as a rank's: neighbours differ.
std::string paint_by_number(std::string_view text, int number, bool colour);

// Characters that a terminal shows, for UTF-8 text without wide ones.
std::size_t width_of(std::string_view text);

}  // namespace rondo
