// Samples of a text for a model of bytes. Which samples a step has depends on its number alone, not on the
// ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "models/mapped_file.h"
#include "models/sharding.h"

namespace rondo {

class TextSamples {
 public:
  // Throws system where the file cannot be read, invalid_argument where it is shorter than one sample of
  // `length` bytes.
  TextSamples(const std::filesystem::path& path, std::size_t length);

  // Samples `which` of those of a step, [which.size(), length].
  std::vector<std::int64_t> of_step(std::uint64_t step, RowRange which) const;

 private:
  MappedFile file_;
  std::size_t length_;
};

}  // namespace rondo
