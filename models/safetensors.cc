#include "models/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "kernels/convert.h"
#include "models/json.h"
#include "src/error.h"

namespace rondo {
namespace {

using nlohmann::json;

struct StoredType {
  std::string_view name;
  std::size_t bits;
  std::optional<DataType> type;
};

// Every type of the format.
constexpr std::array stored_types = {
    StoredType{"F64", 64, DataType::f64},       StoredType{"F32", 32, DataType::f32},
    StoredType{"F16", 16, DataType::f16},       StoredType{"BF16", 16, DataType::bf16},
    StoredType{"I64", 64, DataType::i64},       StoredType{"U64", 64, DataType::u64},
    StoredType{"I32", 32, DataType::i32},       StoredType{"U32", 32, DataType::u32},
    StoredType{"I8", 8, DataType::i8},          StoredType{"U8", 8, DataType::u8},
    StoredType{"BOOL", 8, std::nullopt},        StoredType{"I16", 16, std::nullopt},
    StoredType{"U16", 16, std::nullopt},        StoredType{"C64", 64, std::nullopt},
    StoredType{"F8_E5M2", 8, std::nullopt},     StoredType{"F8_E4M3", 8, std::nullopt},
    StoredType{"F8_E8M0", 8, std::nullopt},     StoredType{"F8_E4M3FNUZ", 8, std::nullopt},
    StoredType{"F8_E5M2FNUZ", 8, std::nullopt}, StoredType{"F6_E2M3", 6, std::nullopt},
    StoredType{"F6_E3M2", 6, std::nullopt},     StoredType{"F4", 4, std::nullopt},
};

const StoredType* find_stored_type(std::string_view name) {
  const auto found = std::ranges::find(stored_types, name, &StoredType::name);
  return found == stored_types.end() ? nullptr : &*found;
}

// ---- The header ----

constexpr std::size_t length_size = sizeof(std::uint64_t);

// What a file that is no safetensors file may be instead.
std::string_view guess_format(std::string_view file) {
  if (file.starts_with("version https://git-lfs")) return " (it is a Git LFS pointer: fetch the file itself)";
  if (file.starts_with("PK\x03\x04")) return " (it is a zip archive, as torch.save writes)";
  return "";
}

// The header's text; its first byte is checked, so that what follows is known to be a JSON object.
std::string_view header_text(std::string_view file, const std::string& path) {
  if (file.size() < length_size) {
    fail(ErrorKind::invalid_argument,
         "{}: {} bytes, but a safetensors file begins with {} bytes of header length", path, file.size(),
         length_size);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_size);
  if (length > safetensors_header_limit) {
    fail(ErrorKind::invalid_argument,
         "{}: header length {} is over the format's limit of {} bytes: not a safetensors file, or damaged{}",
         path, length, safetensors_header_limit, guess_format(file));
  }
  if (length > file.size() - length_size) {
    fail(ErrorKind::invalid_argument,
         "{}: header length {}, but only {} bytes follow it: the file was cut short", path, length,
         file.size() - length_size);
  }
  const std::string_view text = file.substr(length_size, length);
  if (!text.starts_with('{')) {
    fail(ErrorKind::invalid_argument, "{}: the header does not begin with '{{'", path);
  }
  return text;
}

// One tensor's entry in the header, with what its messages begin with.
class Entry {
 public:
  Entry(const std::string& path, const std::string& name, const json& value)
      : label_(fmt::format("{}: tensor '{}'", path, name)), value_(value) {}

  const StoredType& stored_type() const {
    const json& dtype = field("dtype");
    const StoredType* const type =
        dtype.is_string() ? find_stored_type(dtype.get_ref<const std::string&>()) : nullptr;
    if (type == nullptr) {
      fail(ErrorKind::invalid_argument, "{}: dtype {} is not a type of the safetensors format", label_,
           show(dtype));
    }
    return *type;
  }

  std::vector<std::size_t> sizes(const char* key) const {
    const json& value = field(key);
    const auto is_size = [](const json& item) { return item.is_number_unsigned(); };
    if (!value.is_array() || !std::ranges::all_of(value, is_size)) {
      fail(ErrorKind::invalid_argument, "{}: {} is {}, expected a list of integers of 0 or more", label_, key,
           show(value));
    }
    return value.get<std::vector<std::size_t>>();
  }

  // The tensor's part of the data.
  std::span<const std::byte> bytes(std::span<const std::byte> data) const {
    const std::vector<std::size_t> offsets = sizes("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fail(ErrorKind::invalid_argument, "{}: data_offsets are {}, expected [begin, end]", label_,
           show(field("data_offsets")));
    }
    if (offsets[1] > data.size()) {
      fail(ErrorKind::invalid_argument,
           "{}: data_offsets end at {}, but the file has {} bytes of data: it was cut short", label_,
           offsets[1], data.size());
    }
    return data.subspan(offsets[0], offsets[1] - offsets[0]);
  }

  void require_size(std::size_t bytes, const Shape& shape, const StoredType& type) const {
    const auto elements = element_count(shape);
    const auto bits = elements ? checked_product(*elements, type.bits) : std::nullopt;
    if (!bits) {
      fail(ErrorKind::invalid_argument, "{}: shape {} has too many elements to count", label_,
           to_string(shape));
    }
    if (*bits % 8 != 0 || *bits / 8 != bytes) {
      fail(ErrorKind::invalid_argument, "{}: data_offsets span {} bytes, but shape {} of {} has {} bits",
           label_, bytes, to_string(shape), type.name, *bits);
    }
  }

 private:
  const json& field(const char* key) const {
    if (!value_.is_object()) fail(ErrorKind::invalid_argument, "{}: expected a JSON object", label_);
    const auto found = value_.find(key);
    if (found == value_.end()) fail(ErrorKind::invalid_argument, "{}: has no {}", label_, key);
    return *found;
  }

  // The value for a message, which a hostile file could make as long as the header.
  static std::string show(const json& value) { return fmt::format("{:.100}", value.dump()); }

  std::string label_;
  const json& value_;
};

TensorInfo read_entry(const std::string& path, const std::string& name, const json& value,
                      std::span<const std::byte> data) {
  const Entry entry(path, name, value);
  const StoredType& type = entry.stored_type();
  TensorInfo tensor{path, name, type.name, type.type, entry.sizes("shape"), entry.bytes(data)};
  entry.require_size(tensor.bytes.size(), tensor.shape, type);
  return tensor;
}

SafetensorsMetadata read_metadata(const std::string& path, const json& value) {
  const auto is_string = [](const json& item) { return item.is_string(); };
  if (!value.is_object() || !std::ranges::all_of(value, is_string)) {
    fail(ErrorKind::invalid_argument, "{}: {} is not an object of strings", path, safetensors_metadata_key);
  }
  return value.get<SafetensorsMetadata>();
}

// Sorts by place in the data, and throws unless each tensor begins where the one before it ends.
void require_cover(std::vector<TensorInfo>& tensors, std::span<const std::byte> data,
                   const std::string& path) {
  std::ranges::sort(tensors, {}, [](const TensorInfo& tensor) {
    return std::tuple(tensor.bytes.data(), tensor.bytes.size());
  });
  std::size_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin != end) {
      fail(ErrorKind::invalid_argument, "{}: tensor '{}': data_offsets begin at {}, expected {}: {}", path,
           tensor.name, begin, end,
           begin < end ? "it overlaps the tensor before it" : "a hole lies before it");
    }
    end += tensor.bytes.size();
  }
  if (end != data.size()) {
    fail(ErrorKind::invalid_argument,
         "{}: the tensors end at {}, but the file has {} bytes of data: {} too many", path, end, data.size(),
         data.size() - end);
  }
}

// ---- Reading rows ----

bool is_floating(DataType type) {
  return type == DataType::f64 || type == DataType::f32 || type == DataType::f16 || type == DataType::bf16;
}

bool can_convert(DataType from, DataType to) {
  return from == to || (is_floating(from) && is_floating(to) && to != DataType::f64);
}

void widen(std::span<const std::byte> from, DataType type, std::span<float> to) {
  if (type != DataType::f64) return to_f32(from, type, to);
  for (std::size_t i = 0; i < to.size(); ++i) {
    double value = 0;
    std::memcpy(&value, from.data() + i * sizeof(value), sizeof(value));
    to[i] = static_cast<float>(value);
  }
}

// Block by block, by way of f32; neither side need be aligned.
void convert(std::span<const std::byte> from, DataType from_type, std::span<std::byte> out, DataType to) {
  std::array<float, 1024> block;
  const std::size_t from_size = size_of(from_type);
  const std::size_t to_size = size_of(to);
  const std::size_t count = from.size() / from_size;
  for (std::size_t done = 0; done < count; done += block.size()) {
    const auto values = std::span(block).first(std::min(block.size(), count - done));
    widen(from.subspan(done * from_size, values.size() * from_size), from_type, values);
    from_f32(values, to, out.subspan(done * to_size, values.size() * to_size));
  }
}

void require_rows(const TensorInfo& tensor, RowRange rows) {
  if (tensor.shape.empty()) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' is a scalar and has no rows", tensor.file,
         tensor.name);
  }
  if (rows.begin > rows.end || rows.end > tensor.shape.front()) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' has {} rows: cannot read those from {} to {}",
         tensor.file, tensor.name, tensor.shape.front(), rows.begin, rows.end);
  }
}

}  // namespace

std::string_view safetensors_name(DataType type) {
  return std::ranges::find(stored_types, std::optional(type), &StoredType::type)->name;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()), mapping_(path) {
  const std::string_view text = header_text(mapping_.text(), path_);
  const auto data = mapping_.bytes().subspan(length_size + text.size());
  const json header = parse_json(text, path_);
  for (const auto& [name, value] : header.items()) {
    if (name == safetensors_metadata_key) {
      metadata_ = read_metadata(path_, value);
    } else {
      tensors_.push_back(read_entry(path_, name, value, data));
    }
  }
  require_cover(tensors_, data, path_);
  std::ranges::sort(tensors_, {}, &TensorInfo::name);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* const tensor = find(name);
  if (tensor == nullptr) fail(ErrorKind::invalid_argument, "{}: has no tensor '{}'", path_, name);
  return *tensor;
}

void read_rows(const TensorInfo& tensor, RowRange rows, DataType to, std::span<std::byte> out) {
  require_rows(tensor, rows);
  if (!tensor.type) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' has dtype {}, which Rondo does not read", tensor.file,
         tensor.name, tensor.dtype);
  }
  if (!can_convert(*tensor.type, to)) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' has dtype {}, which cannot be read as {}", tensor.file,
         tensor.name, tensor.dtype, name_of(to));
  }
  // A tensor without rows, which would divide by 0, has none to read.
  const std::size_t row_bytes = rows.size() == 0 ? 0 : tensor.bytes.size() / tensor.shape.front();
  const std::size_t out_bytes = rows.size() * (row_bytes / size_of(*tensor.type)) * size_of(to);
  if (out.size() != out_bytes) {
    fail(ErrorKind::invalid_argument,
         "{}: tensor '{}': rows {} to {} as {} are {} bytes, but the output has {}", tensor.file, tensor.name,
         rows.begin, rows.end, name_of(to), out_bytes, out.size());
  }
  const auto from = tensor.bytes.subspan(rows.begin * row_bytes, rows.size() * row_bytes);
  if (*tensor.type == to) {
    std::ranges::copy(from, out.begin());
  } else {
    convert(from, *tensor.type, out, to);
  }
}

}  // namespace rondo
