#include "models/device_compute.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "kernels/embedding.h"
#include "src/group.h"
#include "src/window.h"

namespace rondo {
namespace {

// Memory of the host that a device copies from and to.
class PinnedRoom {
 public:
  PinnedRoom(Device& device, DeviceStream stream)
      : device_(device), stream_(stream), memory_(static_cast<std::byte*>(allocate_window(bytes))) {
    try {
      device_.pin(stream_, {memory_, bytes});
    } catch (...) {
      free_window(memory_);
      throw;
    }
  }
  ~PinnedRoom() {
    try {
      device_.unpin(stream_, memory_);
      free_window(memory_);
    } catch (const Error&) {
      // The device has failed, and may still know the memory.
    }
  }
  PinnedRoom(const PinnedRoom&) = delete;
  PinnedRoom& operator=(const PinnedRoom&) = delete;

  static constexpr std::size_t bytes = std::size_t{4} << 20;
  std::byte* data() const { return memory_; }

 private:
  Device& device_;
  DeviceStream stream_;
  std::byte* memory_;
};

// A stream of its own, which has done everything by the end.
class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.make_stream()) {}
  ~OwnStream() {
    try {
      device_.synchronise(stream_);
      device_.destroy_stream(stream_);
    } catch (const Error&) {
      // The device has failed: nothing is on it any more.
    }
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  DeviceStream get() const { return stream_; }

 private:
  Device& device_;
  DeviceStream stream_;
};

// Memory that is kept for the next one who wants as much: a device's own allocation waits for all that is at
// work. What is free may still be in use by work on the stream, behind which its next use stands.
class DevicePool {
 public:
  explicit DevicePool(Device& device) : device_(device) {}
  ~DevicePool() { give_all_back(); }
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  std::byte* take(std::size_t bytes) {
    std::vector<std::byte*>& free = free_[rounded(bytes)];
    if (free.empty()) return device_.allocate(rounded(bytes));
    std::byte* const memory = free.back();
    free.pop_back();
    return memory;
  }
  void keep(std::byte* memory, std::size_t bytes) noexcept {
    try {
      free_[rounded(bytes)].push_back(memory);
    } catch (const std::bad_alloc&) {
      give_back(memory);
    }
  }
  // Nothing on the stream uses what is free.
  void give_all_back() noexcept {
    for (const auto& [bytes, all] : free_)
      for (std::byte* const memory : all) give_back(memory);
    free_.clear();
  }

 private:
  static std::size_t rounded(std::size_t bytes) {
    constexpr std::size_t unit = 512;
    return std::max<std::size_t>((bytes + unit - 1) / unit, 1) * unit;
  }
  void give_back(std::byte* memory) noexcept {
    try {
      device_.free(memory);
    } catch (const Error&) {
      // The device has failed, and its memory is gone.
    }
  }

  Device& device_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by bytes
};

std::span<std::byte> bytes_of(std::span<float> values) { return std::as_writable_bytes(values); }

class DeviceCompute : public Compute {
 public:
  DeviceCompute(Device& device, std::unique_ptr<DeviceMath> math)
      : device_(device),
        math_(std::move(math)),
        pool_(device),
        stream_(device),
        room_(device, stream_.get()) {}

  // ---- memory ----
  std::byte* allocate(std::size_t bytes, MemoryFor) override { return take(bytes); }
  void free(std::byte* memory, std::size_t bytes, MemoryFor) noexcept override { pool_.keep(memory, bytes); }
  void clear(std::span<std::byte> memory) override {
    if (!memory.empty()) device_.clear(stream_.get(), memory.data(), memory.size());
  }

  std::span<const float> on_host(std::span<const float> values, std::vector<float>& room) override {
    room.resize(values.size());
    down(std::as_bytes(values), std::as_writable_bytes(std::span(room)));
    return room;
  }
  std::span<const float> from_host(std::span<const float> host, Values& room) override {
    if (room.size() != host.size()) room = Values(*this, host.size());
    up(std::as_bytes(host), bytes_of(room));
    return room;
  }
  void write(std::span<float> to, const std::function<void(std::span<float>)>& fill) override {
    std::vector<float> host(to.size());
    fill(host);
    up(std::as_bytes(std::span(host)), bytes_of(to));
  }

  // ---- collectives ----
  std::shared_ptr<PendingCall> start(Communicator& communicator, Call call) override {
    if (std::ranges::find(communicators_, &communicator, [](const auto& one) { return one.get(); }) ==
        communicators_.end())
      communicators_.push_back(communicator.shared_from_this());
    if (calls_ahead_ == most_calls_ahead) finish();
    ++calls_ahead_;
    submit(communicator.shared_from_this(), std::move(call), CallStream{nullptr, stream_.get(), nullptr});
    return nullptr;
  }
  // A call that has failed lets the stream go on.
  void finish() override {
    device_.synchronise(stream_.get());
    calls_ahead_ = 0;
    for (const std::shared_ptr<Communicator>& communicator : communicators_) {
      if (const std::optional<Error> refusal = communicator->take_refusal()) throw Error(*refusal);
      if (const std::optional<Error> error = communicator->error()) throw Error(*error);
    }
  }

  // ---- arithmetic ----
  void matmul(Matrix a, Matrix b, MutableMatrix c) override { multiply(a, b, 0.0f, c); }
  void matmul_add(Matrix a, Matrix b, MutableMatrix c) override { multiply(a, b, 1.0f, c); }
  void add(std::span<float> y, std::span<const float> x) override {
    run(device::Add{x.data(), y.data(), y.size()});
  }
  void scale(std::span<float> y, float factor) override { run(device::Scale{y.data(), y.size(), factor}); }
  double sum_of_squares(std::span<const float> x) override {
    Room<double> sums(*this, device::SumOfSquares::parts);
    run(device::SumOfSquares{x.data(), sums.data(), x.size()});
    return sums.sum();
  }
  void copy_rows(std::span<const float> from, std::size_t from_stride, std::span<float> to,
                 std::size_t to_stride, std::size_t rows, std::size_t width) override {
    run(device::CopyRows{from.data(), to.data(), rows, width, from_stride, to_stride});
  }
  void to_f32(std::span<const std::byte> from, DataType type, std::span<float> to) override {
    if (type == DataType::f32) return copy(from, bytes_of(to));
    run(device::ToF32{reinterpret_cast<const std::uint16_t*>(from.data()), to.data(), to.size(), type});
  }
  void from_f32(std::span<const float> from, DataType type, std::span<std::byte> to) override {
    if (type == DataType::f32) return copy(std::as_bytes(from), to);
    run(device::FromF32{from.data(), reinterpret_cast<std::uint16_t*>(to.data()), from.size(), type});
  }

  void gather_rows(std::span<const std::int64_t> ids, std::span<const float> table, std::size_t width,
                   std::span<float> out) override {
    check_ids(ids, table.size() / width);
    const Room<std::int64_t> on_device(*this, ids);
    run(device::GatherRows{on_device.data(), table.data(), out.data(), ids.size(), width});
  }
  void scatter_add_rows(std::span<const std::int64_t> ids, std::span<const float> dout, std::size_t width,
                        std::span<float> dtable) override {
    check_ids(ids, dtable.size() / width);
    const Room<std::int64_t> on_device(*this, ids);
    run(device::ScatterAddRows{on_device.data(), dout.data(), dtable.data(), ids.size(), width});
  }
  CrossEntropy cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                             std::span<float> log_sum_exp) override {
    const std::size_t vocabulary = check_labels(logits.size(), labels);
    const Room<std::int64_t> on_device(*this, labels);
    Room<double> losses(*this, labels.size());
    run(device::CrossEntropyLosses{logits.data(), on_device.data(), log_sum_exp.data(), losses.data(),
                                   labels.size(), vocabulary});
    const auto ignored = static_cast<std::size_t>(std::ranges::count(labels, ignore_label));
    return {losses.sum(), labels.size() - ignored};
  }
  void cross_entropy_backward(std::span<const float> logits, std::span<const std::int64_t> labels,
                              std::span<const float> log_sum_exp, float scale,
                              std::span<float> dlogits) override {
    const std::size_t vocabulary = check_labels(logits.size(), labels);
    const Room<std::int64_t> on_device(*this, labels);
    run(device::CrossEntropyBackward{logits.data(), on_device.data(), log_sum_exp.data(), dlogits.data(),
                                     labels.size(), vocabulary, scale});
  }

  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, std::span<float> y,
                std::span<float> inverse_rms) override {
    run(device::RmsNorm{x.data(), weight.data(), y.data(), inverse_rms.data(), inverse_rms.size(),
                        weight.size(), eps});
  }
  void rms_norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> weight,
                         std::span<const float> inverse_rms, std::span<float> dx,
                         std::span<float> dweight) override {
    const std::size_t rows = inverse_rms.size(), width = weight.size();
    run(device::RmsNormBackward{dy.data(), x.data(), weight.data(), inverse_rms.data(), dx.data(), rows,
                                width});
    run(device::RmsNormWeightGradient{dy.data(), x.data(), inverse_rms.data(), dweight.data(), rows, width});
  }
  void layer_norm(std::span<const float> x, float eps, std::span<float> y,
                  std::span<float> inverse_deviation) override {
    const std::size_t rows = inverse_deviation.size();
    run(device::LayerNorm{x.data(), y.data(), inverse_deviation.data(), rows, x.size() / rows, eps});
  }
  void layer_norm_backward(std::span<const float> dy, std::span<const float> y,
                           std::span<const float> inverse_deviation, std::span<float> dx) override {
    const std::size_t rows = inverse_deviation.size();
    run(device::LayerNormBackward{dy.data(), y.data(), inverse_deviation.data(), dx.data(), rows,
                                  y.size() / rows});
  }
  void rotate(const RopeTables& tables, Rotation rotation, std::span<float> x, std::size_t length,
              std::size_t heads) override {
    check_rotation(tables, x.size(), length, heads);
    run(device::Rotate{tables.cos.data(), tables.sin.data(), x.data(), x.size() / (heads * 2 * tables.half),
                       length, heads, tables.half, rotation == Rotation::forward ? 1.0f : -1.0f});
  }
  void attention(const AttentionShape& shape, std::span<const float> q, std::span<const float> k,
                 std::span<const float> v, std::span<float> out, std::span<float> probabilities) override {
    run(device::Attention{shape, q.data(), k.data(), v.data(), out.data(), probabilities.data()});
  }
  void attention_backward(const AttentionShape& shape, std::span<const float> dout, std::span<const float> q,
                          std::span<const float> k, std::span<const float> v,
                          std::span<const float> probabilities, std::span<float> dq, std::span<float> dk,
                          std::span<float> dv) override {
    Values dscores(*this, probabilities.size());
    run(device::AttentionQueryGradient{shape, dout.data(), k.data(), v.data(), probabilities.data(),
                                       dq.data(), dscores.span().data()});
    run(device::AttentionKeyValueGradient{shape, dout.data(), q.data(), probabilities.data(),
                                          dscores.span().data(), dk.data(), dv.data()});
  }
  void swiglu(std::span<const float> gate, std::span<const float> up, std::span<float> out) override {
    run(device::Swiglu{gate.data(), up.data(), out.data(), out.size()});
  }
  void swiglu_backward(std::span<const float> dout, std::span<const float> gate, std::span<const float> up,
                       std::span<float> dgate, std::span<float> dup) override {
    run(device::SwigluBackward{dout.data(), gate.data(), up.data(), dgate.data(), dup.data(), dout.size()});
  }
  void gelu(std::span<const float> x, std::span<float> y) override {
    run(device::Gelu{x.data(), y.data(), y.size()});
  }
  void gelu_backward(std::span<const float> dy, std::span<const float> x, std::span<float> dx) override {
    run(device::GeluBackward{dy.data(), x.data(), dx.data(), dx.size()});
  }
  void adamw_step(const AdamW& options, std::int64_t step, std::span<float> parameter,
                  std::span<const float> gradient, std::span<float> first_moment,
                  std::span<float> second_moment) override {
    run(device::AdamWUpdate{AdamWStep(options, step), gradient.data(), parameter.data(), first_moment.data(),
                            second_moment.data(), parameter.size()});
  }

 private:
  // Elements on the device for the length of one function.
  template <typename T>
  class Room {
   public:
    Room(DeviceCompute& compute, std::size_t count)
        : compute_(compute), count_(count), data_(compute.take(bytes())) {}
    Room(DeviceCompute& compute, std::span<const T> host) : Room(compute, host.size()) {
      compute.up(std::as_bytes(host), {data_, bytes()});
    }
    ~Room() { compute_.pool_.keep(data_, bytes()); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    T* data() const { return reinterpret_cast<T*>(data_); }
    // In the order of the elements.
    T sum() const {
      std::vector<T> host(count_);
      compute_.down({data_, bytes()}, std::as_writable_bytes(std::span(host)));
      T all{};
      for (const T value : host) all += value;
      return all;
    }

   private:
    std::size_t bytes() const { return count_ * sizeof(T); }

    DeviceCompute& compute_;
    std::size_t count_;
    std::byte* data_;
  };

  // Where there is no more, what is kept in other sizes makes room.
  std::byte* take(std::size_t bytes) {
    try {
      return pool_.take(bytes);
    } catch (const Error&) {
      device_.synchronise(stream_.get());
      pool_.give_all_back();
      return pool_.take(bytes);
    }
  }

  void run(const device::ModelWork& work) { math_->run(stream_.get(), work); }

  void multiply(const Matrix& a, const Matrix& b, float beta, const MutableMatrix& c) {
    check_product(a, b, c);
    if (c.rows() > 0 && c.cols() > 0) math_->multiply(stream_.get(), a, b, beta, c);
  }

  void copy(std::span<const std::byte> from, std::span<std::byte> to) {
    if (!to.empty()) device_.copy(stream_.get(), to.data(), from.data(), to.size());
  }

  // From the host's memory, which need not stay.
  void up(std::span<const std::byte> host, std::span<std::byte> to) {
    for (std::size_t at = 0; at < host.size(); at += PinnedRoom::bytes) {
      const std::size_t bytes = std::min(PinnedRoom::bytes, host.size() - at);
      std::memcpy(room_.data(), host.data() + at, bytes);
      device_.copy(stream_.get(), to.data() + at, room_.data(), bytes);
      finish();
    }
  }
  void down(std::span<const std::byte> from, std::span<std::byte> host) {
    for (std::size_t at = 0; at < host.size(); at += PinnedRoom::bytes) {
      const std::size_t bytes = std::min(PinnedRoom::bytes, host.size() - at);
      device_.copy(stream_.get(), room_.data(), from.data() + at, bytes);
      finish();
      std::memcpy(host.data() + at, room_.data(), bytes);
    }
  }

  // Calls hold pinned memory of the host until the stream has done them: the more of them, the more.
  static constexpr int most_calls_ahead = 2;

  Device& device_;
  std::vector<std::shared_ptr<Communicator>> communicators_;  // whose calls stand on the stream
  int calls_ahead_ = 0;                                       // started since the last finish()
  std::unique_ptr<DeviceMath> math_;
  DevicePool pool_;
  OwnStream stream_;
  PinnedRoom room_;
};

}  // namespace

std::unique_ptr<Compute> make_device_compute(Device& device, std::unique_ptr<DeviceMath> math) {
  return std::make_unique<DeviceCompute>(device, std::move(math));
}

}  // namespace rondo
