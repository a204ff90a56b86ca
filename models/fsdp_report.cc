#include "models/fsdp_report.h"

#include "models/sharding.h"
#include "src/calls.h"
#include "src/ledger.h"

namespace rondo {
namespace {

constexpr const char* model_name = "qwen3 fsdp";

// Bytes of each rank's rows of all parameters.
std::vector<std::size_t> bytes_by_rank(const ParameterUnit& unit, DataType type, int size) {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(size));
  for (const ParameterSpec& spec : unit.parameters) {
    const std::size_t row_elements = element_count(spec.shape).value() / spec.shape[0];
    for (int rank = 0; rank < size; ++rank)
      bytes[static_cast<std::size_t>(rank)] +=
          shard_rows(spec.shape[0], rank, size).size() * row_elements * size_of(type);
  }
  return bytes;
}

// What FSDP2 sends in its place: every parameter padded to equal shares.
std::uint64_t padded_unit_bytes(const ParameterUnit& unit, DataType type, int size) {
  std::uint64_t bytes = 0;
  for (const ParameterSpec& spec : unit.parameters)
    bytes += element_count(padded_shape(spec.name, spec.shape, size)).value() * size_of(type);
  return bytes / static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size - 1);
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// Builds the rows of one model.
class Rows {
 public:
  Rows(Qwen3& model, FsdpTypes types, std::uint64_t steps)
      : model_(model),
        ledger_(model.communicator().ledger()),
        sent_(model.communicator()),
        types_(types),
        algorithm_(choose_algorithm(CallKind::all_gather, model.communicator().options().settings.algorithm)),
        steps_(steps),
        rank_(model.communicator().rank()),
        size_(model.communicator().size()) {}

  std::vector<LocalRow> all() {
    const Qwen3Config& config = model_.config();
    const ParameterUnit root = qwen3_root_unit(config);
    unit_row(root, "forward", qwen3_scope::forward(model_.root()), CallKind::all_gather, types_.parameter);
    for (std::size_t index = 0; index < model_.layers().size(); ++index) layer_rows(index);
    unit_row(root, "backward", qwen3_scope::backward(model_.root()), CallKind::all_gather, types_.parameter,
             0, "kept whole from forward to backward, as FSDP2 does");
    unit_row(root, "backward", qwen3_scope::reduce(model_.root()), CallKind::reduce_scatter, types_.gradient);
    local_work_row();
    small_row("loss and token count", qwen3_scope::loss);
    if (calls_under(qwen3_scope::gradient_norm) > 0) small_row("gradient norm", qwen3_scope::gradient_norm);
    total_row();
    memory_rows();
    return std::move(rows_);
  }

 private:
  void layer_rows(std::size_t index) {
    const ParameterUnit unit = qwen3_layer_unit(model_.config(), index);
    const FsdpUnit& sharded = model_.layers()[index];
    const std::size_t first = rows_.size();
    unit_row(unit, "forward", qwen3_scope::forward(sharded), CallKind::all_gather, types_.parameter);
    unit_row(unit, "backward", qwen3_scope::backward(sharded), CallKind::all_gather, types_.parameter);
    unit_row(unit, "backward", qwen3_scope::reduce(sharded), CallKind::reduce_scatter, types_.gradient, 1,
             types_.gradient != types_.parameter ? "the document reduces in the parameters' type" : "");
    LocalRow sum{model_name, unit.name + " step", "all", "", "", 0, 0, 0};
    for (std::size_t part = first; part < rows_.size(); ++part) {
      sum.expected += rows_[part].expected;
      sum.measured += rows_[part].measured;
    }
    // The document's figure is three times its 3.54 MB, said with one decimal.
    const std::uint64_t documented = 3 * steps_ * padded_unit_bytes(unit, types_.parameter, size_);
    sum.documented = fmt::format("{:.1f} MB", static_cast<double>(documented) / 1e6);
    sum.documented_bytes = documented / 100'000 * 100'000;
    documented_layers_ += *sum.documented_bytes;
    rows_.push_back(std::move(sum));
  }

  void unit_row(const ParameterUnit& unit, const std::string& stage, const std::string& scope, CallKind kind,
                DataType type, std::uint64_t calls = 1, std::string note = "") {
    LocalRow row{model_name, unit.name + " " + stage, name_of(kind), "", std::move(note), 0, 0};
    row.expected = calls * steps_ * expected_unit_bytes(unit, kind, algorithm_, type, rank_, size_);
    row.measured = sent_.under(scope, kind);
    document(row, unit, calls * steps_);
    push_part(std::move(row));
  }

  void push_part(LocalRow row) {
    expected_total_ += row.expected;
    measured_total_ += row.measured;
    rows_.push_back(std::move(row));
  }

  // The document's rule for a layer: (N-1)/N of its bytes in the parameters' type, equal shares.
  void document(LocalRow& row, const ParameterUnit& unit, std::uint64_t times) const {
    if (unit.name == "root" || size_ == 1) return;
    const std::uint64_t bytes = times * padded_unit_bytes(unit, types_.parameter, size_);
    row.documented = megabytes(bytes);
    row.documented_bytes = bytes / 10'000 * 10'000;
    const std::uint64_t real = times * element_count(unit) * size_of(types_.parameter) /
                               static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_ - 1);
    if (row.note.empty() && bytes != real)
      row.note = "FSDP2 pads every parameter to equal shares; only real rows travel";
  }

  // Steps 1 to 10 of the document, the reshard and the optimizer send nothing: whatever the ledger holds that
  // no other row explains would stand here.
  void local_work_row() {
    const std::uint64_t explained =
        measured_total_ + sent_.under(qwen3_scope::loss) + sent_.under(qwen3_scope::gradient_norm);
    rows_.push_back({model_name, "layers' arithmetic, reshard, optimizer", "none", "0", "", 0,
                     sent_.total() - explained, 0});
  }

  std::uint64_t calls_under(const std::string& scope) const {
    std::uint64_t calls = 0;
    for (const auto& [key, row] : ledger_.rows())
      if (key.scope == scope) calls += row.calls;
    return calls;
  }

  // Two f64, summed over the ranks.
  void small_row(const char* stage, const char* scope) {
    const std::array<double, 2> values{};
    const Call call = all_reduce_call({rank_, size_}, values.data(), const_cast<double*>(values.data()),
                                      values.size(), DataType::f64, {});
    LocalRow row{model_name, stage, name_of(CallKind::all_reduce), "", "not in the document's figure", 0, 0};
    const Algorithm algorithm = algorithm_under(ledger_, scope, call.kind, call.all_bytes(),
                                                model_.communicator().options().settings.algorithm);
    row.expected = calls_under(scope) * sum_of(expected_payload(call, algorithm, rank_, size_));
    row.measured = sent_.under(scope, CallKind::all_reduce);
    push_part(std::move(row));
  }

  void total_row() {
    LocalRow row{model_name,      "training step", "all", "", "the document counts the layers only",
                 expected_total_, measured_total_};
    row.documented = fmt::format("{:.1f} MB", static_cast<double>(documented_layers_) / 1e6);
    row.documented_bytes = documented_layers_;
    rows_.push_back(row);
  }

  void memory_rows() {
    const ParameterUnit unit = qwen3_layer_unit(model_.config(), 0);
    const MemoryMeter& memory = model_.layers().front().memory();
    const std::uint64_t whole = element_count(unit) * size_of(types_.parameter);
    const std::uint64_t shard = bytes_by_rank(unit, types_.parameter, size_)[static_cast<std::size_t>(rank_)];
    const auto row = [&](const char* stage, std::uint64_t documented, const char* note,
                         std::uint64_t expected, std::uint64_t measured) {
      rows_.push_back({model_name, stage, "memory", documented == 0 ? "0" : megabytes(documented), note,
                       expected, measured, documented / 10'000 * 10'000});
    };
    row("layer 0: whole parameters, in forward", whole, "", whole, memory.peak(MemoryKind::unsharded));
    row("layer 0: whole parameters, after reshard", 0, "", 0, memory.held(MemoryKind::unsharded));
    row("layer 0: shard, always", whole / static_cast<std::uint64_t>(size_), "", shard,
        memory.held(MemoryKind::shard));
    row("layer 0: all parameters, in forward", whole, "the document leaves the shard out", whole + shard,
        memory.peak(MemoryKind::unsharded) + memory.held(MemoryKind::shard));
    row("layer 0: all parameters, after reshard", whole / static_cast<std::uint64_t>(size_), "", shard,
        memory.held(MemoryKind::unsharded) + memory.held(MemoryKind::shard));
  }

  Qwen3& model_;
  const Ledger& ledger_;
  SentPayload sent_;
  FsdpTypes types_;
  Algorithm algorithm_;
  std::uint64_t steps_;
  int rank_, size_;
  std::uint64_t expected_total_ = 0, measured_total_ = 0, documented_layers_ = 0;
  std::vector<LocalRow> rows_;
};

}  // namespace

std::uint64_t expected_unit_bytes(const ParameterUnit& unit, CallKind kind, Algorithm algorithm,
                                  DataType type, int rank, int size) {
  Call call;
  call.kind = kind;
  call.chunk_bytes = bytes_by_rank(unit, type, size);
  return sum_of(expected_payload(call, algorithm, rank, size));
}

std::vector<LocalRow> fsdp_rows(Qwen3& model, FsdpTypes types, std::uint64_t steps) {
  return Rows(model, types, steps).all();
}

}  // namespace rondo
