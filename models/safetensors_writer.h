// Writing a safetensors file, at once or tensor by tensor.
// Source of the format: see safetensors.h.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kernels/types.h"
#include "models/safetensors.h"
#include "models/shape.h"
#include "models/temporary_file.h"

namespace rondo {

// A tensor that a file is to hold.
struct TensorSpec {
  std::string name;
  DataType type;
  Shape shape;
};

// Writes a file piece by piece, so that whoever gathers tensors one after another never holds all of them.
// The file appears under its name in finish(), complete; without that, or after an error, the destructor
// removes what was written, and a file that had the name stays as it was. As the reference implementation
// does, lays the data out by falling element size, so that every tensor is aligned to its elements. Not for
// several threads.
class SafetensorsWriter {
 public:
  // Writes the header. Throws Error: (invalid_argument) for a name that is given twice, reserved or not
  // UTF-8, for sizes that overflow and for a header over the format's limit; (system) where the file cannot
  // be written.
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorSpec> tensors,
                    const SafetensorsMetadata& metadata = {});

  // Writes a tensor's data: all of it, row-major. Each tensor once, in any order. Throws Error:
  // (invalid_argument) for a name that is not awaited and for another size than the shape's; (system).
  void write(std::string_view name, std::span<const std::byte> bytes);

  // Names the file; nothing may be called after it. Throws Error: (invalid_usage) where a tensor's data was
  // not written; (system).
  void finish();

 private:
  // Bytes begin, ..., end - 1 of the data.
  struct DataRange {
    std::size_t begin;
    std::size_t end;
  };

  std::string path_;
  TemporaryFile file_;
  std::map<std::string, DataRange, std::less<>> awaited_;
  std::size_t data_begin_ = 0;  // in the file
};

// A tensor with its data, row-major.
struct NamedTensor {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

// Writes a whole file; errors are SafetensorsWriter's.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace rondo
