#include "models/checkpoint.h"

#include "models/json.h"
#include "src/error.h"

namespace rondo {
namespace {

using nlohmann::json;

// The "weight_map" of an index.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const json index = read_json_file(path);
  const json map = index.is_object() ? index.value("weight_map", json()) : json();
  if (!map.is_object()) {
    fail(ErrorKind::invalid_argument, "{}: weight_map is absent or no JSON object", path.string());
  }
  std::map<std::string, std::string> result;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) {
      fail(ErrorKind::invalid_argument, "{}: weight_map: '{}' is {:.100}, expected a file's name",
           path.string(), tensor, file.dump());
    }
    result.emplace(tensor, file.get<std::string>());
  }
  return result;
}

// A checkpoint from a stranger must not lead out of its folder.
void require_plain_name(const std::string& file, const std::string& index) {
  if (file.empty() || file == "." || file == ".." || std::filesystem::path(file).filename() != file) {
    fail(ErrorKind::invalid_argument, "{}: weight_map names the file '{}', expected a name without a folder",
         index, file);
  }
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder)
    : config_(load_qwen3_config(folder / "config.json")) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    open_single(single);
  } else if (std::filesystem::exists(index)) {
    open_index(index);
  } else {
    fail(ErrorKind::system, "{}: has neither {} nor {}", folder.string(), single.filename().string(),
         index.filename().string());
  }
}

void Checkpoint::open_single(const std::filesystem::path& path) {
  listing_ = path.string();
  const SafetensorsFile& file = files_.emplace(path.filename(), path).first->second;
  for (const TensorInfo& tensor : file.tensors()) tensors_.emplace(tensor.name, &tensor);
}

void Checkpoint::open_index(const std::filesystem::path& path) {
  listing_ = path.string();
  for (const auto& [name, file_name] : read_weight_map(path)) {
    require_plain_name(file_name, listing_);
    auto file = files_.find(file_name);
    if (file == files_.end()) file = files_.emplace(file_name, path.parent_path() / file_name).first;
    const TensorInfo* const tensor = file->second.find(name);
    if (tensor == nullptr) {
      fail(ErrorKind::invalid_argument, "{}: weight_map says that {} has tensor '{}', but it has not",
           listing_, file_name, name);
    }
    tensors_.emplace(name, tensor);
  }
}

const TensorInfo& Checkpoint::at(std::string_view name, const Shape& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    fail(ErrorKind::invalid_argument, "{}: lists no tensor '{}'", listing_, name);
  }
  const TensorInfo& tensor = *found->second;
  if (tensor.shape != shape) {
    fail(ErrorKind::invalid_argument, "{}: tensor '{}' is {}, expected {}", tensor.file, name,
         to_string(tensor.shape), to_string(shape));
  }
  return tensor;
}

}  // namespace rondo
