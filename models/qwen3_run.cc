#include "models/qwen3_run.h"

#include <cstring>
#include <optional>

#include "models/gather_rows.h"
#include "models/safetensors_writer.h"

namespace rondo {
namespace {

constexpr const char* output_scope = "output";

std::vector<TensorSpec> output_specs(Qwen3& model, const SampleFile& file) {
  std::vector<TensorSpec> specs{
      {"logits", DataType::f32, {file.samples, file.length, model.config().vocab_size}},
      {"loss", DataType::f32, {}}};
  for (const FsdpUnit* unit : model.units())
    for (std::size_t p = 0; p < unit->parameter_count(); ++p)
      specs.push_back({"grad." + unit->spec(p).name, DataType::f32, unit->spec(p).shape});
  return specs;
}

// Elements of each rank's rows.
std::vector<std::size_t> counts_by_rank(std::size_t rows, std::size_t row_elements, int size) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < size; ++rank)
    counts.push_back(shard_rows(rows, rank, size).size() * row_elements);
  return counts;
}

// Writes on rank 0, and gathers from all.
class Output {
 public:
  Output(Qwen3& model, const SampleFile& file, const std::filesystem::path& path) : model_(model) {
    if (model.communicator().rank() == 0) writer_.emplace(path, output_specs(model, file));
  }

  void write_loss(double loss) {
    const auto value = static_cast<float>(loss);
    if (writer_) writer_->write("loss", std::as_bytes(std::span(&value, 1)));
  }

  void write_rows(const std::string& name, std::span<const float> mine, std::size_t rows,
                  std::size_t row_elements) {
    Communicator& communicator = model_.communicator();
    const std::vector<float> whole = gather_rows_to_first(
        communicator, mine, counts_by_rank(rows, row_elements, communicator.size()), output_scope);
    if (writer_) writer_->write(name, std::as_bytes(std::span(whole)));
  }

  void finish() {
    if (writer_) writer_->finish();
  }

 private:
  Qwen3& model_;
  std::optional<SafetensorsWriter> writer_;
};

}  // namespace

SampleFile::SampleFile(const std::filesystem::path& path, std::size_t vocabulary) {
  const SafetensorsFile file(path);
  const TensorInfo& tensor = file.at("input_ids");
  if (tensor.type != DataType::i64 || tensor.shape.size() != 2)
    fail(ErrorKind::invalid_argument, "{}: input_ids is {} {}, expected I64 [samples, tokens]", path.string(),
         tensor.dtype, to_string(tensor.shape));
  samples = tensor.shape[0];
  length = tensor.shape[1];
  if (samples == 0 || length < 2)
    fail(ErrorKind::invalid_argument, "{}: input_ids is {}, expected at least 1 sample of 2 tokens",
         path.string(), to_string(tensor.shape));
  ids.resize(samples * length);
  std::memcpy(ids.data(), tensor.bytes.data(), tensor.bytes.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= vocabulary)
      fail(ErrorKind::invalid_argument, "{}: input_ids[{}, {}] is {}, expected 0 to {}", path.string(),
           i / length, i % length, ids[i], vocabulary - 1);
}

Qwen3Run run_qwen3(Qwen3& model, const SampleFile& file, const std::filesystem::path& out) {
  const Communicator& communicator = model.communicator();
  const RowRange mine = shard_rows(file.samples, communicator.rank(), communicator.size());
  Output output(model, file, out);
  const double loss =
      model.forward(std::span(file.ids).subspan(mine.begin * file.length, mine.size() * file.length),
                    {mine.size(), file.length});
  output.write_rows("logits", model.logits(), file.samples, file.length * model.config().vocab_size);
  output.write_loss(loss);
  model.backward();
  std::vector<float> room;
  for (FsdpUnit* unit : model.units()) {
    for (std::size_t p = 0; p < unit->parameter_count(); ++p) {
      const ParameterSpec& spec = unit->spec(p);
      output.write_rows("grad." + spec.name, model.compute().on_host(unit->gradient_shard(p), room),
                        spec.shape[0], element_count(spec.shape).value() / spec.shape[0]);
    }
  }
  output.finish();
  return {loss, file.samples, file.length};
}

}  // namespace rondo
