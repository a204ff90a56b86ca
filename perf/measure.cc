#include "perf/measure.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "perf/bench_memory.h"
#include "perf/pattern.h"
#include "perf/values.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

Seating place_of(const Case& which, int rank, int ranks, int root) {
  return {static_cast<std::size_t>(which.bytes) / size_of(which.type), rank, ranks, root};
}

Sizes root_sizes(const Collective& collective, const Case& which, int ranks, int root) {
  return collective.sizes(place_of(which, root, ranks, root));
}

// The operator as the library knows it. That of mulsum is made for a communicator, with its factor.
class Operator {
 public:
  Operator(const Communicator& communicator, DataType type, ReduceOp op) : comm_(communicator.get()) {
    if (op != ReduceOp::premul_sum) {
      op_ = static_cast<rondoRedOp_t>(op);
      return;
    }
    std::byte scalar[8];
    Pattern(type, [](std::size_t) { return pre_multiplier; }).write(scalar, 0, 1);
    check(rondoRedOpCreatePreMulSum(&op_, scalar, static_cast<rondoDataType_t>(type),
                                    rondoScalarHostImmediate, comm_));
    made_ = true;
  }
  ~Operator() {
    if (made_) rondoRedOpDestroy(op_, comm_);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  rondoRedOp_t get() const { return op_; }

 private:
  rondoComm_t comm_;
  rondoRedOp_t op_ = rondoSum;
  bool made_ = false;
};

// The buffers of one measurement, and what is called on them.
class Bench {
 public:
  Bench(Communicator& communicator, const Collective& collective, const Case& which,
        const PerfOptions& options)
      : collective_(collective),
        numbers_{which.type, which.op, collective.reduces, communicator.size()},
        place_(place_of(which, communicator.rank(), communicator.size(), options.root)),
        sizes_(collective.sizes(place_)),
        element_(size_of(which.type)),
        operator_(communicator, which.type, which.op),
        device_stream_(options.on_device ? std::make_unique<BenchStream>() : nullptr),
        receive_memory_(receive_room(which.in_place), options.memory, device_stream_.get()),
        send_memory_(which.in_place ? 0 : sizes_.send * element_, options.memory, device_stream_.get()),
        input_(input_pattern(communicator.rank())) {
    const std::size_t send_at = which.in_place ? sizes_.in_place->send_at : 0;
    const std::size_t receive_at = which.in_place ? sizes_.in_place->receive_at : 0;
    const BenchMemory& send_memory = which.in_place ? receive_memory_ : send_memory_;
    send_ = send_memory.on_host() + send_at * element_;
    receive_ = receive_memory_.on_host() + receive_at * element_;
    arguments_ = {send_memory.data() + send_at * element_,
                  receive_memory_.data() + receive_at * element_,
                  sizes_.count,
                  static_cast<rondoDataType_t>(which.type),
                  operator_.get(),
                  options.root,
                  communicator.rank(),
                  communicator.size(),
                  communicator.get(),
                  nullptr};
    if (device_stream_)
      arguments_.stream = static_cast<rondoStream_t>(device_stream_->get());
    else if (!options.blocking)
      arguments_.stream = stream_.emplace();
  }

  void fill() {
    receive_memory_.clear_on_host();
    input_.write(send_, 0, sizes_.send);
    receive_memory_.up();
    send_memory_.up();
  }

  // The owner writes to every cache line of its input. What is done on a GPU has no such lines.
  void touch() {
    if (device_stream_) return;
    auto* word = reinterpret_cast<volatile unsigned char*>(send_);
    const std::size_t bytes = sizes_.send * element_;
    for (std::size_t i = 0; i < bytes; i += cache_line) word[i] = word[i];
  }

  // One iteration; the time of a call.
  double run(int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) check(collective_.call(arguments_));
    if (stream_) stream_->synchronize();
    if (device_stream_) device_stream_->synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (device_stream_) need_no_error();
    return seconds / calls;
  }

  std::uint64_t count_wrong() {
    receive_memory_.down();
    std::uint64_t wrong = 0;
    for (const Expected& part : collective_.expected(place_))
      wrong +=
          expected_pattern(part.source).count_wrong(receive_ + part.at * element_, part.from, part.count);
    return wrong;
  }

 private:
  static constexpr std::size_t cache_line = 64;

  // Calls on a device's stream tell nobody else.
  void need_no_error() const {
    rondoResult_t error = rondoSuccess;
    check(rondoCommGetAsyncError(arguments_.comm, &error));
    check(error);
  }

  std::size_t receive_room(bool in_place) const {
    return (in_place ? std::max(sizes_.send, sizes_.receive) : sizes_.receive) * element_;
  }
  Pattern input_pattern(int rank) const {
    return {numbers_.type, [&, rank](std::size_t i) { return input_value(numbers_, rank, i); }};
  }
  const Pattern& expected_pattern(int source) {
    const auto known = expected_.find(source);
    if (known != expected_.end()) return known->second;
    Pattern made = source != Expected::reduction
                       ? input_pattern(source)
                       : Pattern(numbers_.type, [&](std::size_t i) { return reduced_value(numbers_, i); });
    return expected_.emplace(source, std::move(made)).first->second;
  }

  const Collective& collective_;
  Numbers numbers_;
  Seating place_;
  Sizes sizes_;
  std::size_t element_;
  Operator operator_;
  std::unique_ptr<BenchStream> device_stream_;  // of buffers in a device's memory; else null
  BenchMemory receive_memory_, send_memory_;
  Pattern input_;
  std::map<int, Pattern> expected_;  // by source
  std::optional<Stream> stream_;
  std::byte *send_ = nullptr, *receive_ = nullptr;  // on the host
  CallArguments arguments_{};
};

double slowest(Communicator& communicator, double seconds) {
  communicator.all_reduce(std::span(&seconds, 1), max);
  return seconds;
}

Times times_of(Communicator& communicator, double first, std::vector<double> seconds) {
  communicator.all_reduce(seconds, max);
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {slowest(communicator, first), seconds[count / 2], seconds[(count - 1) * 99 / 100], seconds.front(),
          sum / static_cast<double>(count)};
}

// What the ledger saw of the rank that sent most.
double most_sent(Communicator& communicator) {
  const std::vector<std::uint64_t> matrix = communicator.ledger_matrix();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::uint64_t most = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(from * ranks);
    most = std::max(most, std::accumulate(row, row + static_cast<std::ptrdiff_t>(ranks), std::uint64_t{0}));
  }
  return static_cast<double>(most);
}

std::vector<double> timed_iterations(Communicator& communicator, Bench& bench, int iterations,
                                     const PerfOptions& options) {
  std::vector<double> seconds(static_cast<std::size_t>(iterations));
  for (int i = 0; i < options.warmup; ++i) bench.run(1);
  communicator.barrier();
  communicator.ledger_reset();
  for (double& one : seconds) {
    if (!options.clean) {
      bench.touch();
      communicator.barrier();
    }
    one = bench.run(options.calls);
  }
  return seconds;
}

// Returns the elements that were wrong on all ranks, in all checks. The first call's time goes to `first`.
std::optional<std::uint64_t> check_results(Communicator& communicator, Bench& bench, int checks,
                                           double& first) {
  std::uint64_t wrong = 0;
  for (int i = 0; i < std::max(checks, 1); ++i) {
    bench.fill();
    communicator.barrier();
    const double seconds = bench.run(1);
    if (i == 0) first = seconds;
    if (checks > 0) wrong += bench.count_wrong();
  }
  communicator.all_reduce(std::span(&wrong, 1));
  bench.fill();
  return checks > 0 ? std::optional(wrong) : std::nullopt;
}

}  // namespace

std::uint64_t bytes_of(const Collective& collective, const Case& which, int ranks, int root) {
  const Sizes sizes = root_sizes(collective, which, ranks, root);
  return std::max(sizes.send, sizes.receive) * size_of(which.type);
}

std::size_t count_of(const Collective& collective, const Case& which, int ranks, int root) {
  return root_sizes(collective, which, ranks, root).count;
}

std::optional<Measured> measure(Communicator& communicator, const Collective& collective, const Case& which,
                                const PerfOptions& options) {
  if (which.in_place && !root_sizes(collective, which, communicator.size(), options.root).in_place)
    return std::nullopt;
  Bench bench(communicator, collective, which, options);
  Measured measured{};
  double first = 0;
  measured.wrong = check_results(communicator, bench, options.checks, first);
  measured.iterations = iterations_for(options, which.bytes);
  std::vector<double> seconds = timed_iterations(communicator, bench, measured.iterations, options);
  const double calls = static_cast<double>(measured.iterations) * options.calls;
  measured.sent = most_sent(communicator) / calls;
  measured.times = times_of(communicator, first, std::move(seconds));
  return measured;
}

}  // namespace rondo
