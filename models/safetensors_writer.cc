#include "models/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/error.h"

namespace rondo {
namespace {

using nlohmann::json;

std::vector<TensorSpec> by_falling_element_size(std::span<const TensorSpec> tensors) {
  std::vector<TensorSpec> sorted(tensors.begin(), tensors.end());
  std::ranges::stable_sort(sorted, std::greater(), [](const TensorSpec& spec) { return size_of(spec.type); });
  return sorted;
}

// Where the tensor's data ends that begins at an offset.
std::size_t data_end(std::size_t begin, const TensorSpec& spec, const std::string& path) {
  const auto elements = element_count(spec.shape);
  const auto bytes = elements ? checked_product(*elements, size_of(spec.type)) : std::nullopt;
  std::size_t end = 0;
  if (!bytes || __builtin_add_overflow(begin, *bytes, &end)) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}': shape {} makes the file too large to count its bytes",
         path, spec.name, to_string(spec.shape));
  }
  return end;
}

// The header as it stands in the file, behind its length and padded so that the data is aligned.
std::string serialize(const json& header, const std::string& path) {
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    fail(ErrorKind::invalid_argument, "{}: a name or its metadata is not UTF-8: {}", path, error.what());
  }
  constexpr std::size_t alignment = 8;
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  if (text.size() > safetensors_header_limit) {
    fail(ErrorKind::invalid_argument, "{}: a header of {} bytes is over the format's limit of {}", path,
         text.size(), safetensors_header_limit);
  }
  const std::uint64_t length = text.size();
  std::string prefix(sizeof(length), '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  return prefix + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorSpec> tensors,
                                     const SafetensorsMetadata& metadata)
    : path_(path.string()), file_(path) {
  json header = json::object();
  if (!metadata.empty()) header[std::string(safetensors_metadata_key)] = metadata;
  std::size_t end = 0;
  for (const TensorSpec& spec : by_falling_element_size(tensors)) {
    const DataRange range{end, data_end(end, spec, path_)};
    if (spec.name == safetensors_metadata_key || !awaited_.emplace(spec.name, range).second) {
      fail(ErrorKind::invalid_argument, "{}: tensor '{}': the name is given twice or reserved", path_,
           spec.name);
    }
    header[spec.name] = {{"dtype", safetensors_name(spec.type)},
                         {"shape", spec.shape},
                         {"data_offsets", {range.begin, range.end}}};
    end = range.end;
  }
  const std::string begin = serialize(header, path_);
  file_.write(0, std::as_bytes(std::span(begin)));
  data_begin_ = begin.size();
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto place = awaited_.find(name);
  if (place == awaited_.end()) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' was not declared, or was written before", path_, name);
  }
  const auto [begin, end] = place->second;
  if (bytes.size() != end - begin) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' was declared with {} bytes, but {} were given", path_,
         name, end - begin, bytes.size());
  }
  file_.write(data_begin_ + begin, bytes);
  awaited_.erase(place);
}

void SafetensorsWriter::finish() {
  if (!awaited_.empty()) {
    fail(ErrorKind::invalid_usage, "{}: tensor '{}' was declared but not written, as were {} others", path_,
         awaited_.begin()->first, awaited_.size() - 1);
  }
  file_.rename();
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<TensorSpec> specs;
  for (const NamedTensor& tensor : tensors) specs.push_back(tensor.spec);
  SafetensorsWriter writer(path, specs, metadata);
  for (const NamedTensor& tensor : tensors) writer.write(tensor.spec.name, tensor.bytes);
  writer.finish();
}

}  // namespace rondo
