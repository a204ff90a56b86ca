// Reading tensors from a safetensors file.
// Source of the format: https://huggingface.co/docs/safetensors, "Format", and the reference implementation
// (safetensors/src/tensor.rs): 8 bytes of header length, little-endian; the header, a JSON object; the data.
#pragma once

#include <bit>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"
#include "models/mapped_file.h"
#include "models/shape.h"
#include "models/sharding.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

// The longest header that the format allows, in bytes.
inline constexpr std::size_t safetensors_header_limit = 100'000'000;

// The header's key that holds strings about the file as a whole, not a tensor.
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

// What stands under that key, such as {"format", "pt"}.
using SafetensorsMetadata = std::map<std::string, std::string>;

// The format's name of an element type, such as "BF16".
std::string_view safetensors_name(DataType type);

// A tensor in a file.
struct TensorInfo {
  std::string file;  // for messages
  std::string name;
  std::string_view dtype;        // the format's name of the element type; never dangles
  std::optional<DataType> type;  // none where Rondo has no such type: BOOL, I16, F8_E4M3 and others
  Shape shape;
  std::span<const std::byte> bytes;  // row-major, at any alignment; in the file's mapping
};

// A file whose header was read and found right: every tensor's bytes lie within the data, fit its shape and
// type, and all of them together cover the data without a gap or an overlap. Data is read only when it is
// touched. Immutable, so any thread may use it. Do not truncate or overwrite an open file (see MappedFile).
class SafetensorsFile {
 public:
  // Throws Error (system) where the file cannot be read, (invalid_argument) where it breaks the format. The
  // message names the file, the tensor and the field. A bad header causes no large allocation.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  // Null where the file has no such tensor. Valid as long as this object, or the one it was moved to.
  const TensorInfo* find(std::string_view name) const;
  // As find; throws Error (invalid_argument) where the file has no such tensor.
  const TensorInfo& at(std::string_view name) const;
  // All tensors, by name.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  std::string path_;
  MappedFile mapping_;
  SafetensorsMetadata metadata_;
  std::vector<TensorInfo> tensors_;
};

// Copies some rows of a tensor (see sharding.h) to `out`, row-major, as elements of type `to`; touches no
// other rows' bytes. Any type is copied as itself; f64, f32, f16 and bf16 also become f32, f16 or bf16,
// rounded to nearest even (f64 by way of f32). `out` has exactly the rows' size in bytes and may be at any
// alignment. Throws Error (invalid_argument) for another conversion, a type that Rondo has not, a scalar,
// rows that the tensor has not, and an `out` of another size.
void read_rows(const TensorInfo& tensor, RowRange rows, DataType to, std::span<std::byte> out);

}  // namespace rondo
