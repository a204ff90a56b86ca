#include "models/megatron_report.h"

#include "src/collective.h"
#include "src/ledger.h"

namespace rondo {
namespace {

constexpr const char* model_name = "megatron tp";

std::string scope_name(const char* scope) { return fmt::format("{}/{}", tp_scopes::block, scope); }

std::string size_text(std::uint64_t bytes) {
  return bytes < 100'000 ? fmt::format("{} B", bytes)
                         : fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// A place where the block communicates.
struct PlaceRow {
  const char* stage;
  const char* scope;
  CallKind kind;
  std::uint64_t calls;
  std::uint64_t documented;  // times B S H; 0: the document gives no figure
  std::string note;
};

class Rows {
 public:
  Rows(Communicator& communicator, const MegatronConfig& config, const MegatronPasses& passes)
      : communicator_(communicator), sent_(communicator), config_(config), passes_(passes) {}

  std::vector<LocalRow> all() {
    forward_rows();
    if (passes_.backward > 0) backward_rows();
    check_row();
    return std::move(rows_);
  }

 private:
  void forward_rows() {
    const std::uint64_t calls = passes_.layers * passes_.forward;
    const std::size_t first = rows_.size();
    place_row(
        {"attention forward", tp_scopes::attention_forward, CallKind::all_gather, calls, 1, many_ranks()});
    place_row({"FFN forward", tp_scopes::ffn_forward, CallKind::all_reduce, calls, 2, many_ranks()});
    sum_row("forward, both", first, calls, "3 B S H", many_ranks());
    local_row();
  }

  void backward_rows() {
    const std::uint64_t calls = passes_.layers * passes_.backward;
    const std::size_t first = rows_.size();
    const bool dual = config_.conjugates == Conjugates::dual;
    if (dual) {
      place_row({"FFN backward", tp_scopes::ffn_backward, CallKind::all_reduce, calls, 0,
                 "the dual of the all-reduce"});
      place_row({"attention backward", tp_scopes::attention_backward, CallKind::reduce_scatter, calls, 0,
                 "the dual of the all-gather; the document has an all-reduce"});
    } else {
      place_row({"FFN backward", tp_scopes::ffn_backward, CallKind::all_reduce, calls, 0,
                 "Megatron's f, before w1"});
      place_row({"attention backward", tp_scopes::attention_backward, CallKind::all_reduce, calls, 0,
                 "Megatron's f, before wq, wk, wv"});
    }
    sum_row("backward, both", first, calls, "about the forward",
            dual ? "dual operators: exactly the forward"
                 : "Megatron's conjugates: 2 all-reduces, 4/3 of the forward");
    if (dual)
      place_row({"gradient of x", tp_scopes::leaf, CallKind::all_reduce, passes_.backward, 0,
                 "dual operators leave x's gradient in parts: one all-reduce for the whole stack"});
  }

  void place_row(const PlaceRow& place) {
    LocalRow row{model_name, place.stage, name_of(place.kind), "", place.note, 0, 0};
    row.expected =
        place.calls * bytes_sent(scope_name(place.scope), place.kind, config_.elements(), sizeof(float));
    row.measured = sent_.under(scope_name(place.scope), place.kind);
    if (place.documented > 0)
      document(row, place.documented, place.calls, place.documented == 1 ? "B S H" : "2 B S H");
    rows_.push_back(row);
  }

  void sum_row(const char* stage, std::size_t first, std::uint64_t calls, const char* text,
               std::string note) {
    LocalRow row{model_name, stage, "both", "", std::move(note), 0, 0};
    for (std::size_t index = first; index < rows_.size(); ++index) {
      row.expected += rows_[index].expected;
      row.measured += rows_[index].measured;
    }
    document(row, 3, calls, text);
    rows_.push_back(row);
  }

  // `calls` times so many times B S H.
  void document(LocalRow& row, std::uint64_t times, std::uint64_t calls, const std::string& text) const {
    const std::uint64_t bytes = calls * times * config_.elements() * sizeof(float);
    row.documented =
        fmt::format("{}: {}", calls == 1 ? text : fmt::format("{} x {}", calls, text), size_text(bytes));
    row.documented_bytes = bytes;
  }

  // Whatever was booked under the block itself, and not under one of its places, would stand here.
  void local_row() {
    LocalRow row{model_name, "residual, GELU, LayerNorm", "none", "0", "", 0, 0, 0};
    row.measured = sent_.at(tp_scopes::block);
    rows_.push_back(row);
  }

  // Two u64 a forward pass.
  void check_row() {
    LocalRow row{
        model_name, "x is the same", name_of(CallKind::all_reduce), "", "not in the document: a hash of x", 0,
        0};
    row.expected = passes_.forward * bytes_sent(scope_name(tp_scopes::same_input), CallKind::all_reduce, 2,
                                                sizeof(std::uint64_t));
    row.measured = sent_.under(scope_name(tp_scopes::same_input), CallKind::all_reduce);
    rows_.push_back(row);
  }

  // In one call over so many elements on all ranks. Slots have bytes of their own in an all-reduce only,
  // whose input is all of them.
  std::uint64_t bytes_sent(const std::string& scope, CallKind kind, std::uint64_t elements,
                           std::size_t element_bytes) const {
    const Algorithm algorithm = algorithm_under(communicator_.ledger(), scope, kind, elements * element_bytes,
                                                communicator_.options().settings.algorithm);
    return element_bytes *
           elements_sent(kind, algorithm, elements, communicator_.rank(), communicator_.size());
  }

  std::string many_ranks() const {
    const int size = communicator_.size();
    if (size == 1) return "the documented figure is the limit for many ranks; one rank sends nothing";
    return fmt::format(
        "the documented figure is the limit for many ranks: 1/(1 - 1/{}) = {:.3f} times what a rank sends",
        size, static_cast<double>(size) / (size - 1));
  }

  Communicator& communicator_;
  SentPayload sent_;
  const MegatronConfig& config_;
  MegatronPasses passes_;
  std::vector<LocalRow> rows_;
};

}  // namespace

std::uint64_t elements_sent(CallKind kind, Algorithm algorithm, std::uint64_t elements, int rank, int size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  Call call;  // of elements of one byte
  call.kind = kind;
  for (std::uint64_t of = 0; of < ranks; ++of)
    call.chunk_bytes.push_back(elements / ranks + (of < elements % ranks ? 1 : 0));
  return sum_of(expected_payload(call, algorithm, rank, size));
}

std::vector<LocalRow> megatron_rows(Communicator& communicator, const MegatronConfig& config,
                                    const MegatronPasses& passes) {
  return Rows(communicator, config, passes).all();
}

}  // namespace rondo
