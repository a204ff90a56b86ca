// Strict reading of the JSON in model files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rondo {

// Parses one JSON value. Throws Error (invalid_argument), which begins with `source`, a file's name, where
// the text is not JSON in UTF-8, where an object has a key twice, or where values nest more than 32 deep.
nlohmann::json parse_json(std::string_view text, const std::string& source);

// Reads and parses a file. Throws as parse_json does, and Error (system) where the file cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path);

}  // namespace rondo
