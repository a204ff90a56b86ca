#include "models/megatron_file.h"

#include "models/safetensors_writer.h"

namespace rondo {
namespace {

// A tensor of this shape; in a shape that is asked for, 0 stands for any size but 0.
std::vector<float> read_tensor(const SafetensorsFile& file, const char* name, const Shape& expected) {
  const TensorInfo& tensor = file.at(name);
  bool fits = tensor.shape.size() == expected.size();
  for (std::size_t dimension = 0; fits && dimension < expected.size(); ++dimension)
    fits = expected[dimension] == 0 ? tensor.shape[dimension] > 0
                                    : tensor.shape[dimension] == expected[dimension];
  if (!fits) {
    std::vector<std::string> sizes;
    for (const std::size_t size : expected) sizes.push_back(size == 0 ? "any" : fmt::format("{}", size));
    fail(ErrorKind::invalid_argument, "{}: tensor {} has shape {}: expected {}", file.path(), name,
         to_string(tensor.shape), fmt::join(sizes, "x"));
  }
  std::vector<float> values(element_count(tensor.shape).value());
  read_rows(tensor, {0, tensor.shape[0]}, DataType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

MegatronInput read_input(const std::filesystem::path& path, const MegatronConfig& config) {
  const SafetensorsFile file(path);
  MegatronInput input{config, read_tensor(file, "x", {0, 0, 0}), {}};
  const Shape& shape = file.at("x").shape;
  input.config.batch = shape[0];
  input.config.sequence = shape[1];
  input.config.hidden = shape[2];
  const std::size_t hidden = shape[2];
  input.weights.w1 = read_tensor(file, "w1", {hidden, 0});
  input.config.ffn = file.at("w1").shape[1];
  for (const MegatronWeightSpec& spec : weight_specs(input.config))
    input.weights.*spec.values = read_tensor(file, spec.name, spec.shape());
  return input;
}

NamedTensor named(const std::string& name, const Shape& shape, std::span<const float> values) {
  return {{name, DataType::f32, shape}, std::as_bytes(values)};
}

}  // namespace

MegatronInput read_megatron_input(const std::filesystem::path& path, const MegatronConfig& config) {
  try {
    return read_input(path, config);
  } catch (const Error& error) {
    // What a file holds is no argument of ours.
    if (error.kind() != ErrorKind::invalid_argument) throw;
    throw Error(ErrorKind::invalid_usage, error.what());
  }
}

void write_megatron_output(const std::filesystem::path& path, const MegatronConfig& config,
                           const MegatronOutput& output) {
  const Shape shape{config.batch, config.sequence, config.hidden};
  std::vector<NamedTensor> tensors{named("out", shape, output.out), named("loss", {}, {&output.loss, 1}),
                                   named("grad.x", shape, output.dx)};
  for (const MegatronWeightSpec& spec : weight_specs(config))
    tensors.push_back(named(fmt::format("grad.{}", spec.name), spec.shape(), output.gradients.*spec.values));
  write_safetensors(path, tensors);
}

}  // namespace rondo
