#include "perf/bench.h"

#include <algorithm>
#include <chrono>

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Seating place_of(const Case& which, int rank, int ranks, int root) {
  return {static_cast<std::size_t>(which.bytes) / size_of(which.type), rank, ranks, root};
}

Operator::Operator(const Callee& callee, DataType type, ReduceOp op) : callee_(callee) {
  if (op != ReduceOp::premul_sum) {
    op_ = static_cast<rondoRedOp_t>(op);
    return;
  }
  std::byte scalar[8];
  Pattern(type, [](std::size_t) { return pre_multiplier; }).write(scalar, 0, 1);
  callee_.check(callee_.functions.red_op_create_pre_mul_sum(&op_, scalar, static_cast<rondoDataType_t>(type),
                                                            rondoScalarHostImmediate, callee_.comm));
  made_ = true;
}
Operator::~Operator() {
  if (made_) callee_.functions.red_op_destroy(op_, callee_.comm);
}

Bench::Bench(const Communicator& communicator, const std::vector<Callee>& callees,
             const Collective& collective, const Case& which, const PerfOptions& options)
    : callees_(callees),
      collective_(collective),
      which_(which),
      numbers_{which.type, which.op, collective.reduces, communicator.size()},
      place_(place_of(which, communicator.rank(), communicator.size(), options.root)),
      sizes_(collective.sizes(place_)),
      element_(size_of(which.type)),
      device_stream_(options.on_device ? std::make_unique<BenchStream>() : nullptr),
      receive_memory_(receive_room(which.in_place), options.memory, device_stream_.get()),
      send_memory_(which.in_place ? 0 : sizes_.send * element_, options.memory, device_stream_.get()),
      input_(input_pattern(communicator.rank())) {
  for (const Callee& callee : callees) operators_.emplace_back(callee, which.type, which.op);
  if (!device_stream_ && !options.blocking) stream_.emplace();
  const std::size_t send_at = (which.in_place ? sizes_.in_place->send_at : 0) * element_;
  const std::size_t receive_at = (which.in_place ? sizes_.in_place->receive_at : 0) * element_;
  const BenchMemory& send_memory = which.in_place ? receive_memory_ : send_memory_;
  send_ = send_memory.on_host() + send_at;
  receive_ = receive_memory_.on_host() + receive_at;
  call_send_ = send_memory.data() + send_at;
  call_receive_ = receive_memory_.data() + receive_at;
}

void Bench::fill() {
  receive_memory_.clear_on_host();
  input_.write(send_, 0, sizes_.send);
  receive_memory_.up();
  send_memory_.up();
}

void Bench::touch() {
  if (device_stream_) return;
  auto* word = reinterpret_cast<volatile unsigned char*>(send_);
  const std::size_t bytes = sizes_.send * element_;
  for (std::size_t i = 0; i < bytes; i += cache_line) word[i] = word[i];
}

double Bench::run(std::size_t which, int calls) {
  const Callee& callee = callees_[which];
  const CallArguments arguments = arguments_for(which);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) callee.check(collective_.call(arguments));
  if (stream_) stream_->synchronize();
  if (device_stream_) device_stream_->synchronize();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (device_stream_) need_no_error(callee);
  return seconds / calls;
}

std::uint64_t Bench::count_wrong() {
  receive_memory_.down();
  std::uint64_t wrong = 0;
  for (const Expected& part : collective_.expected(place_))
    wrong += expected_pattern(part.source).count_wrong(receive_ + part.at * element_, part.from, part.count);
  return wrong;
}

rondoStream_t Bench::stream() const {
  if (device_stream_) return static_cast<rondoStream_t>(device_stream_->get());
  return stream_ ? rondoStream_t{*stream_} : nullptr;
}

// Calls on a device's stream tell nobody else.
void Bench::need_no_error(const Callee& callee) const {
  rondoResult_t error = rondoSuccess;
  callee.check(callee.functions.comm_get_async_error(callee.comm, &error));
  callee.check(error);
}

CallArguments Bench::arguments_for(std::size_t which) const {
  const Callee& callee = callees_[which];
  return {callee.functions,
          call_send_,
          call_receive_,
          sizes_.count,
          static_cast<rondoDataType_t>(which_.type),
          operators_[which].get(),
          place_.root,
          place_.rank,
          place_.ranks,
          callee.comm,
          stream()};
}

std::size_t Bench::receive_room(bool in_place) const {
  return (in_place ? std::max(sizes_.send, sizes_.receive) : sizes_.receive) * element_;
}

Pattern Bench::input_pattern(int rank) const {
  return {numbers_.type, [&, rank](std::size_t i) { return input_value(numbers_, rank, i); }};
}

const Pattern& Bench::expected_pattern(int source) {
  const auto known = expected_.find(source);
  if (known != expected_.end()) return known->second;
  Pattern made = source != Expected::reduction
                     ? input_pattern(source)
                     : Pattern(numbers_.type, [&](std::size_t i) { return reduced_value(numbers_, i); });
  return expected_.emplace(source, std::move(made)).first->second;
}

}  // namespace rondo
