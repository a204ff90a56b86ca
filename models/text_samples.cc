#include "models/text_samples.h"

#include "models/generator.h"
#include "src/error.h"

namespace rondo {

TextSamples::TextSamples(const std::filesystem::path& path, std::size_t length)
    : file_(path), length_(length) {
  if (file_.bytes().size() < length)
    fail(ErrorKind::invalid_argument, "{}: {} bytes of text, expected at least one sample of {}",
         path.string(), file_.bytes().size(), length);
}

std::vector<std::int64_t> TextSamples::of_step(std::uint64_t step, RowRange which) const {
  const std::span<const std::byte> text = file_.bytes();
  const std::size_t places = text.size() - length_ + 1;
  std::vector<std::int64_t> ids;
  for (std::size_t sample = which.begin; sample < which.end; ++sample) {
    const std::size_t start = splitmix64(splitmix64(step) + sample) % places;
    for (const std::byte byte : text.subspan(start, length_)) ids.push_back(static_cast<std::int64_t>(byte));
  }
  return ids;
}

}  // namespace rondo
