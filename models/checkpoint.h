// A model as transformers saves it.
// Source of the layout: transformers' PreTrainedModel.save_pretrained: config.json, and either
// model.safetensors or several files with model.safetensors.index.json, whose "weight_map" names the file of
// each tensor.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/qwen3_config.h"
#include "models/safetensors.h"
#include "models/shape.h"

namespace rondo {

// A folder with a Qwen3 checkpoint, its files open and their headers checked. Each tensor keeps the type that
// its file gives it. Immutable, so any thread may use it; its files must not be overwritten in place
// meanwhile.
class Checkpoint {
 public:
  // Throws Error (system) where a file is missing or cannot be read, (invalid_argument) where one is not as
  // it should be: see load_qwen3_config and SafetensorsFile, or an index that names a file which lacks the
  // tensor.
  explicit Checkpoint(const std::filesystem::path& folder);

  const Qwen3Config& config() const { return config_; }
  // The tensors' names and what their files say of them.
  const std::map<std::string, const TensorInfo*, std::less<>>& tensors() const { return tensors_; }
  // Throws Error (invalid_argument) where the checkpoint has no such tensor, or one of another shape. Valid
  // as long as this object, or the one it was moved to.
  const TensorInfo& at(std::string_view name, const Shape& shape) const;

 private:
  void open_single(const std::filesystem::path& path);
  void open_index(const std::filesystem::path& path);

  std::string listing_;  // the file that says which tensors there are
  Qwen3Config config_;
  std::map<std::string, SafetensorsFile> files_;  // by file name
  std::map<std::string, const TensorInfo*, std::less<>> tensors_;
};

}  // namespace rondo
