// Rondo in C++: a thin layer over rondo.h, in this header alone. What a call does, and what may be called
// from which thread, is told there; here handles own what they name, buffers know their sizes, and whatever
// goes wrong is thrown as an Exception.
//
//   auto world = rondo::Communicator::from_environment();
//   std::vector<float> gradient(1000);
//   world.all_reduce(gradient, rondo::avg);
//
// A buffer is any contiguous range: std::span, std::vector, std::array. A call without a stream returns when
// it is done; on a stream it returns at once, and its buffers must live until the stream is synchronized.
#ifndef RONDO_RONDO_HPP_
#define RONDO_RONDO_HPP_

#include <rondo/rondo.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace rondo {
inline namespace v0 {

// ---- errors ----

class Exception : public std::runtime_error {
 public:
  Exception(rondoResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  rondoResult_t result() const noexcept { return result_; }

 private:
  rondoResult_t result_;
};

// Throws if a call of the C interface has failed in this thread.
inline void check(rondoResult_t result) {
  if (result != rondoSuccess) throw Exception(result, rondoGetLastError(nullptr));
}

// ---- elements and operators ----

// 16-bit floating-point numbers as stored; conversions are the program's.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};

// The rondoDataType_t of T. To be specialised for 16-bit types of your own.
template <typename T>
struct DataTypeOf {};
template <rondoDataType_t type>
using DataTypeConstant = std::integral_constant<rondoDataType_t, type>;
template <>
struct DataTypeOf<float> : DataTypeConstant<rondoFloat32> {};
template <>
struct DataTypeOf<double> : DataTypeConstant<rondoFloat64> {};
template <>
struct DataTypeOf<f16> : DataTypeConstant<rondoFloat16> {};
template <>
struct DataTypeOf<bf16> : DataTypeConstant<rondoBfloat16> {};
template <>
struct DataTypeOf<std::byte> : DataTypeConstant<rondoUint8> {};
template <std::integral T>
requires(!std::same_as<T, bool> && sizeof(T) == 1) struct DataTypeOf<T>
    : DataTypeConstant<std::is_signed_v<T> ? rondoInt8 : rondoUint8> {
};
template <std::integral T>
requires(sizeof(T) == 4) struct DataTypeOf<T>
    : DataTypeConstant<std::is_signed_v<T> ? rondoInt32 : rondoUint32> {
};
template <std::integral T>
requires(sizeof(T) == 8) struct DataTypeOf<T>
    : DataTypeConstant<std::is_signed_v<T> ? rondoInt64 : rondoUint64> {
};

template <typename T>
inline constexpr rondoDataType_t data_type_of = DataTypeOf<std::remove_cv_t<T>>::value;

template <typename T>
concept Element = requires {
  { DataTypeOf<std::remove_cv_t<T>>::value } -> std::convertible_to<rondoDataType_t>;
};
template <typename Range>
concept Input = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    Element<std::ranges::range_value_t<Range>>;
template <typename Range>
concept Output =
    Input<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;
template <typename Send, typename Receive>
concept SameElements = std::same_as<std::ranges::range_value_t<Send>, std::ranges::range_value_t<Receive>>;

inline constexpr rondoRedOp_t sum = rondoSum, prod = rondoProd, max = rondoMax, min = rondoMin,
                              avg = rondoAvg;

// ---- handles ----

// Owns a handle of the C interface and gives it back by `release`, whose result is not looked at.
template <typename Handle, rondoResult_t (*release)(Handle)>
class Owner {
 public:
  explicit Owner(Handle handle = nullptr) noexcept : handle_(handle) {}
  ~Owner() { reset(); }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Handle get() const noexcept { return handle_; }

 private:
  void reset() noexcept {
    if (handle_ != nullptr) release(std::exchange(handle_, nullptr));
  }
  Handle handle_;
};

// Calls on one stream run in order while their caller goes on. The destructor waits for them, and drops
// their error: synchronize() to see it.
class Stream {
 public:
  Stream() : handle_(make()) {}
  // To be passed as the last argument of a call.
  operator rondoStream_t() const noexcept { return handle_.get(); }

  void synchronize() { check(rondoStreamSynchronize(handle_.get())); }
  // Are all calls done? Throws the error of one that failed.
  bool done() {
    const rondoResult_t result = rondoStreamQuery(handle_.get());
    if (result == rondoInProgress) return false;
    check(result);
    return true;
  }

 private:
  static rondoStream_t make() {
    rondoStream_t stream = nullptr;
    check(rondoStreamCreate(&stream));
    return stream;
  }
  Owner<rondoStream_t, rondoStreamDestroy> handle_;
};

// Calls under way on a stream of their own. The destructor waits for them.
class Work {
 public:
  explicit Work(Stream stream) : stream_(std::move(stream)) {}

  void wait() { stream_.synchronize(); }
  bool test() { return stream_.done(); }
  // True when the work was done in time; the work goes on if not.
  template <typename Rep, typename Period>
  bool wait(std::chrono::duration<Rep, Period> timeout) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (!test()) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }

 private:
  Stream stream_;
};

// Starts the calls that `make(stream)` makes on the stream that it gets:
//   auto work = rondo::start([&](rondoStream_t stream) { world.all_reduce(x, rondo::sum, stream); });
template <std::invocable<rondoStream_t> Make>
[[nodiscard]] Work start(Make&& make) {
  Stream stream;
  std::forward<Make>(make)(stream);
  return Work(std::move(stream));
}

// Calls made in this thread while a Group is open travel together (rondoGroupStart). end() runs them. A group
// that is left without end(), as by an exception, runs what it holds all the same, and drops its error.
class Group {
 public:
  Group() { check(rondoGroupStart()); }
  ~Group() {
    if (open_) rondoGroupEnd();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void end() {
    open_ = false;
    check(rondoGroupEnd());
  }

 private:
  bool open_ = true;
};

// Names a communicator to be. Made by one process, carried to the others as bytes, and kept from strangers.
class UniqueId {
 public:
  UniqueId() { check(rondoGetUniqueId(&id_)); }
  explicit UniqueId(std::span<const std::byte, RONDO_UNIQUE_ID_BYTES> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) id_.internal[i] = std::to_integer<char>(bytes[i]);
  }
  const rondoUniqueId& get() const noexcept { return id_; }
  std::span<const std::byte, RONDO_UNIQUE_ID_BYTES> bytes() const noexcept {
    return std::as_bytes(std::span<const char, RONDO_UNIQUE_ID_BYTES>(id_.internal));
  }

 private:
  rondoUniqueId id_;
};

// What is left empty comes from the environment (docs/tuning.md).
struct Config {
  std::optional<std::chrono::milliseconds> timeout = {};  // zero: never
  std::optional<bool> strict = {};
  std::string algorithm = {};  // "auto", "ring" or "direct"
  std::string name = {};       // stands in messages
};

// ---- communicators ----

class Communicator {
 public:
  static Communicator from_id(const UniqueId& id, int size, int rank, const Config& config = {}) {
    return make([&](rondoComm_t* comm) {
      const rondoConfig_t c = c_config(config);
      return rondoCommInitRankConfig(comm, size, id.get(), rank, &c);
    });
  }
  // The world of `rondo run` or torchrun.
  static Communicator from_environment(const Config& config = {}) {
    return make([&](rondoComm_t* comm) {
      const rondoConfig_t c = c_config(config);
      return rondoCommInitEnv(comm, &c);
    });
  }
  // All ranks in this process, to be used by a thread each.
  static std::vector<Communicator> all_in_process(int size) {
    std::vector<rondoComm_t> made(static_cast<std::size_t>(size > 0 ? size : 1));
    check(rondoCommInitAll(made.data(), size, nullptr));
    std::vector<Owner<rondoComm_t, rondoCommDestroy>> owned;
    for (const rondoComm_t comm : made) owned.emplace_back(comm);
    std::vector<Communicator> all;
    for (auto& comm : owned) all.push_back(Communicator(std::move(comm)));
    return all;
  }
  // Collective. Nothing for a negative colour. An empty config is the parent's.
  std::optional<Communicator> split(int color, int key = 0, const Config& config = {}) {
    rondoComm_t made = nullptr;
    const rondoConfig_t c = c_config(config);
    check(rondoCommSplit(get(), color, key, &made, &c));
    if (made == nullptr) return std::nullopt;
    return Communicator(Owner<rondoComm_t, rondoCommDestroy>(made));
  }

  rondoComm_t get() const noexcept { return handle_.get(); }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  void set_timeout(std::chrono::milliseconds timeout) { check(rondoCommSetTimeout(get(), timeout.count())); }
  // Waits until every call made so far is done. Without it the destructor ends those that are pending.
  void finalize() { check(rondoCommFinalize(get())); }
  // Ends every pending call on every rank. Safe from any thread that does not race with the destructor; the
  // handle is of no more use.
  void abort() { check(rondoCommAbort(get())); }
  // rondoSuccess, or what made the communicator fail.
  rondoResult_t async_error() const {
    rondoResult_t error = rondoSuccess;
    check(rondoCommGetAsyncError(get(), &error));
    return error;
  }

  // -- collectives; one range alone: in place --

  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void all_reduce(const Send& send, Receive&& receive, rondoRedOp_t op = sum,
                  rondoStream_t stream = nullptr) {
    need_size("all_reduce", "receive", count(receive), count(send));
    check(rondoAllReduce(data(send), data(receive), count(send), type<Send>(), op, get(), stream));
  }
  template <Output Buffer>
  void all_reduce(Buffer&& buffer, rondoRedOp_t op = sum, rondoStream_t stream = nullptr) {
    all_reduce(buffer, buffer, op, stream);
  }

  // receive: every rank's `send`, one after another.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void all_gather(const Send& send, Receive&& receive, rondoStream_t stream = nullptr) {
    need_size("all_gather", "receive", count(receive), count(send) * ranks());
    check(rondoAllGather(data(send), data(receive), count(send), type<Send>(), get(), stream));
  }
  // This rank's part stands at its place in the buffer.
  template <Output Buffer>
  void all_gather(Buffer&& buffer, rondoStream_t stream = nullptr) {
    all_gather(own_part("all_gather", buffer), buffer, stream);
  }

  // send: size() parts, one after another; part r is reduced into rank r's `receive`.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void reduce_scatter(const Send& send, Receive&& receive, rondoRedOp_t op = sum,
                      rondoStream_t stream = nullptr) {
    need_size("reduce_scatter", "send", count(send), count(receive) * ranks());
    check(rondoReduceScatter(data(send), data(receive), count(receive), type<Send>(), op, get(), stream));
  }
  // The result stands at this rank's place in the buffer; the rest is left as it was.
  template <Output Buffer>
  void reduce_scatter(Buffer&& buffer, rondoRedOp_t op = sum, rondoStream_t stream = nullptr) {
    reduce_scatter(buffer, own_part("reduce_scatter", buffer), op, stream);
  }

  // counts[r] elements come from rank r.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void all_gather_v(const Send& send, Receive&& receive, std::span<const std::size_t> counts,
                    rondoStream_t stream = nullptr) {
    need_counts("all_gather_v", counts, "send", count(send), "receive", count(receive));
    check(rondoAllGatherV(data(send), data(receive), counts.data(), type<Send>(), get(), stream));
  }
  // counts[r] reduced elements go to rank r.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void reduce_scatter_v(const Send& send, Receive&& receive, std::span<const std::size_t> counts,
                        rondoRedOp_t op = sum, rondoStream_t stream = nullptr) {
    need_counts("reduce_scatter_v", counts, "receive", count(receive), "send", count(send));
    check(rondoReduceScatterV(data(send), data(receive), counts.data(), type<Send>(), op, get(), stream));
  }

  // send is read on root only, and may be empty elsewhere.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void broadcast(const Send& send, Receive&& receive, int root, rondoStream_t stream = nullptr) {
    if (rank_ == root) need_size("broadcast", "send", count(send), count(receive));
    check(rondoBroadcast(data(send), data(receive), count(receive), type<Send>(), root, get(), stream));
  }
  template <Output Buffer>
  void broadcast(Buffer&& buffer, int root, rondoStream_t stream = nullptr) {
    broadcast(buffer, buffer, root, stream);
  }

  // receive is written on root only, and may be empty elsewhere.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void reduce(const Send& send, Receive&& receive, int root, rondoRedOp_t op = sum,
              rondoStream_t stream = nullptr) {
    if (rank_ == root) need_size("reduce", "receive", count(receive), count(send));
    check(rondoReduce(data(send), data(receive), count(send), type<Send>(), op, root, get(), stream));
  }
  template <Output Buffer>
  void reduce(Buffer&& buffer, int root, rondoRedOp_t op = sum, rondoStream_t stream = nullptr) {
    reduce(buffer, buffer, root, op, stream);
  }

  // receive is written on root only, and may be empty elsewhere.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void gather(const Send& send, Receive&& receive, int root, rondoStream_t stream = nullptr) {
    if (rank_ == root) need_size("gather", "receive", count(receive), count(send) * ranks());
    check(rondoGather(data(send), data(receive), count(send), type<Send>(), root, get(), stream));
  }

  // send is read on root only, and may be empty elsewhere.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void scatter(const Send& send, Receive&& receive, int root, rondoStream_t stream = nullptr) {
    if (rank_ == root) need_size("scatter", "send", count(send), count(receive) * ranks());
    check(rondoScatter(data(send), data(receive), count(receive), type<Send>(), root, get(), stream));
  }

  // Part r of send goes to rank r. Not in place.
  template <Input Send, Output Receive>
  requires SameElements<Send, Receive>
  void all_to_all(const Send& send, Receive&& receive, rondoStream_t stream = nullptr) {
    need_size("all_to_all", "receive", count(receive), count(send));
    check(rondoAlltoAll(data(send), data(receive), part_count("all_to_all", "send", count(send)),
                        type<Send>(), get(), stream));
  }

  template <Input Send>
  void send(const Send& send, int peer, rondoStream_t stream = nullptr) {
    check(rondoSend(data(send), count(send), type<Send>(), peer, get(), stream));
  }
  template <Output Receive>
  void recv(Receive&& receive, int peer, rondoStream_t stream = nullptr) {
    check(rondoRecv(data(receive), count(receive), type<Receive>(), peer, get(), stream));
  }

  void barrier(rondoStream_t stream = nullptr) { check(rondoBarrier(get(), stream)); }

  // -- the ledger --

  // Collective: bytes sent since the last reset, [from * size() + to].
  std::vector<std::uint64_t> ledger_matrix(rondoLedgerClass_t byte_class = rondoLedgerPayload) {
    std::vector<std::uint64_t> matrix(ranks() * ranks());
    check(rondoLedgerMatrix(get(), byte_class, matrix.data()));
    return matrix;
  }
  // This rank's rows.
  std::string ledger_json() const {
    std::size_t bytes = 0;
    check(rondoLedgerJson(get(), nullptr, &bytes));
    std::string text(bytes, '\0');
    check(rondoLedgerJson(get(), text.data(), &bytes));
    text.resize(bytes - 1);  // the final zero
    return text;
  }
  void ledger_reset() { check(rondoLedgerReset(get())); }

 private:
  explicit Communicator(Owner<rondoComm_t, rondoCommDestroy> handle) : handle_(std::move(handle)) {
    check(rondoCommUserRank(get(), &rank_));
    check(rondoCommCount(get(), &size_));
  }

  template <typename Init>
  static Communicator make(Init init) {
    rondoComm_t comm = nullptr;
    check(init(&comm));
    return Communicator(Owner<rondoComm_t, rondoCommDestroy>(comm));
  }
  // Points into `config`.
  static rondoConfig_t c_config(const Config& config) {
    rondoConfig_t c = RONDO_CONFIG_INITIALIZER;
    if (config.timeout) c.timeout_ms = config.timeout->count();
    if (config.strict) c.strict = *config.strict ? 1 : 0;
    if (!config.algorithm.empty()) c.algorithm = config.algorithm.c_str();
    if (!config.name.empty()) c.name = config.name.c_str();
    return c;
  }

  template <typename Range>
  static auto* data(Range& range) {
    return std::ranges::data(range);
  }
  template <typename Range>
  static std::size_t count(const Range& range) {
    return static_cast<std::size_t>(std::ranges::size(range));
  }
  template <typename Range>
  static constexpr rondoDataType_t type() {
    return data_type_of<std::ranges::range_value_t<Range>>;
  }
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }

  [[noreturn]] static void refuse(std::string_view call, std::string_view what) {
    throw Exception(rondoInvalidArgument, std::string(call) + ": " + std::string(what));
  }
  static void need_size(std::string_view call, std::string_view argument, std::size_t is,
                        std::size_t expected) {
    if (is != expected)
      refuse(call, std::string(argument) + " has " + std::to_string(is) + " elements: expected " +
                       std::to_string(expected));
  }
  std::size_t part_count(std::string_view call, std::string_view argument, std::size_t elements) const {
    if (elements % ranks() != 0)
      refuse(call, std::string(argument) + " has " + std::to_string(elements) +
                       " elements: expected a multiple of the " + std::to_string(size_) + " ranks");
    return elements / ranks();
  }
  void need_counts(std::string_view call, std::span<const std::size_t> counts, std::string_view part,
                   std::size_t part_size, std::string_view whole, std::size_t whole_size) const {
    need_size(call, "counts", counts.size(), ranks());
    need_size(call, part, part_size, counts[static_cast<std::size_t>(rank_)]);
    need_size(call, whole, whole_size, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  }
  template <typename Range>
  auto own_part(std::string_view call, Range& buffer) const {
    const std::size_t each = part_count(call, "buffer", count(buffer));
    return std::span(data(buffer), count(buffer)).subspan(static_cast<std::size_t>(rank_) * each, each);
  }

  Owner<rondoComm_t, rondoCommDestroy> handle_;
  int rank_ = 0, size_ = 0;
};

// ---- memory ----

// `count` elements that peers can map, all zero at first: rondoMemAlloc. A range, to be passed as a buffer.
template <Element T>
class Memory {
 public:
  explicit Memory(std::size_t count) : memory_(make(count)), count_(count) {}
  T* data() const noexcept { return static_cast<T*>(memory_.get()); }
  std::size_t size() const noexcept { return count_; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + count_; }
  T& operator[](std::size_t index) const noexcept { return data()[index]; }

 private:
  static void* make(std::size_t count) {
    void* memory = nullptr;
    check(rondoMemAlloc(&memory, count * sizeof(T)));
    return memory;
  }
  Owner<void*, rondoMemFree> memory_;
  std::size_t count_;
};

// A range's memory registered with a communicator for as long as this lives; with its pages exchanged for
// shared ones, under the conditions that rondo.h states.
class Registration {
 public:
  template <Output Buffer>
  Registration(const Communicator& communicator, Buffer&& buffer, int flags = RONDO_WIN_EXCHANGE_PAGES)
      : comm_(communicator.get()) {
    check(rondoCommWindowRegister(comm_, std::ranges::data(buffer),
                                  std::ranges::size(buffer) * sizeof(*std::ranges::data(buffer)), &window_,
                                  flags));
  }
  ~Registration() { rondoCommWindowDeregister(comm_, window_); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  rondoComm_t comm_;
  rondoWindow_t window_ = nullptr;
};

// A sum of inputs that each rank multiplies by `factor` first. To be passed as an operator while it lives.
template <Element T>
class PreMulSum {
 public:
  PreMulSum(const Communicator& communicator, T factor) : comm_(communicator.get()) {
    check(rondoRedOpCreatePreMulSum(&op_, &factor, data_type_of<T>, rondoScalarHostImmediate, comm_));
  }
  ~PreMulSum() { rondoRedOpDestroy(op_, comm_); }
  PreMulSum(const PreMulSum&) = delete;
  PreMulSum& operator=(const PreMulSum&) = delete;
  operator rondoRedOp_t() const noexcept { return op_; }

 private:
  rondoComm_t comm_;
  rondoRedOp_t op_ = rondoSum;
};

// Books the calls made while it lives under a name.
class LedgerScope {
 public:
  LedgerScope(const Communicator& communicator, const std::string& name) : comm_(communicator.get()) {
    check(rondoLedgerScopeBegin(comm_, name.c_str()));
  }
  ~LedgerScope() { rondoLedgerScopeEnd(comm_); }
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  rondoComm_t comm_;
};

}  // namespace v0
}  // namespace rondo

#endif  // RONDO_RONDO_HPP_
