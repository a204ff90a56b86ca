#include "src/device_call.h"

#include <algorithm>
#include <map>
#include <new>

#include "src/communicator.h"
#include "src/engine.h"
#include "src/log.h"

namespace rondo {
namespace {

enum class Use { read, written };

// The thread stands in the context; null: where it stood.
class Within {
 public:
  Within(Device& device, DeviceContext context) : device_(device), entered_(context != nullptr) {
    if (entered_) device_.enter(context);
  }
  ~Within() {
    if (entered_) device_.leave();
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Device& device_;
  bool entered_;
};

// Every piece of the call's buffers that is not empty: visit(extent, use).
template <typename AnyCall, typename Visit>
void for_each_extent(AnyCall& call, Visit visit) {
  for (auto& chunk : call.input)
    for (auto& extent : chunk) visit(extent, Use::read);
  for (auto& chunk : call.output)
    for (auto& extent : chunk) visit(extent, Use::written);
  for (auto& message : call.messages)
    if (message.extent.bytes > 0)
      visit(message.extent, message.direction == Message::Direction::send ? Use::read : Use::written);
}

// Whether memory is the device's: a call's extents are mostly pieces of few allocations.
class Sight {
 public:
  explicit Sight(const Device& device) : device_(device) {}

  bool is_on_device(const std::byte* data) {
    if (last_.contains(data)) return true;
    const auto allocation = device_.allocation_of(data);
    if (allocation) last_ = *allocation;
    return allocation.has_value();
  }

 private:
  const Device& device_;
  DeviceAllocation last_{};
};

// Where pieces of device memory go in one block of host memory. Those that overlap, as in place, stay
// together; apart from that they stand one after another in the order in which they were added, so that
// ranks whose buffers lie in another order at home lay them out alike.
class Layout {
 public:
  void add(const Extent& extent) {
    std::byte *begin = extent.data, *end = extent.data + extent.bytes;
    std::size_t order = next_order_++;
    // Takes in what overlaps: all of it lies together in the map.
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
    while (piece != pieces_.end() && piece->first < end) {
      begin = std::min(begin, piece->first);
      end = std::max(end, piece->second.end);
      order = std::min(order, piece->second.order);
      piece = pieces_.erase(piece);
    }
    pieces_.emplace(begin, Piece{end, order, 0});
  }

  // Bytes in all. From here on at() tells where.
  std::size_t finish() {
    std::vector<Pieces::iterator> in_order;
    for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) in_order.push_back(piece);
    std::sort(in_order.begin(), in_order.end(),
              [](const auto& a, const auto& b) { return a->second.order < b->second.order; });
    std::size_t bytes = 0;
    for (const auto& piece : in_order) {
      piece->second.offset = bytes;
      bytes += static_cast<std::size_t>(piece->second.end - piece->first);
    }
    return bytes;
  }
  std::size_t at(std::byte* data) const {
    const auto& [begin, piece] = *std::prev(pieces_.upper_bound(data));
    return piece.offset + static_cast<std::size_t>(data - begin);
  }

 private:
  struct Piece {
    std::byte* end;
    std::size_t order, offset;
  };
  using Pieces = std::map<std::byte*, Piece>;

  Pieces pieces_;
  std::size_t next_order_ = 0;
};

}  // namespace

bool touches(const Device& device, const Call& call) {
  bool found = false;
  for_each_extent(call, [&](const Extent& extent, Use) {
    found = found || device.allocation_of(extent.data).has_value();
  });
  return found;
}

DeviceCall::DeviceCall(Device& device, DeviceStream stream, DeviceContext context, Communicator& communicator,
                       Call& call)
    : device_(device),
      stream_(stream),
      context_(context),
      communicator_(communicator.weak_from_this()),
      wake_(communicator.waker()) {
  const Within within(device_, context_);
  health_ = watch(device_, device_.companion_of(stream));
  if (device_.is_recorded(stream))
    fail(ErrorKind::invalid_usage,
         "the stream is being recorded (a CUDA graph): calls that the host carries out cannot be");
  at_work_.emplace(stream);
  plan(call);
}

// A block that a stream may still use is lost: to be freed it would have to be waited for.
DeviceCall::~DeviceCall() {
  const StreamState state = stream_state_.load(std::memory_order_acquire);
  const bool used = state != StreamState::not_begun;
  if (state == StreamState::at_work) [[maybe_unused]]
    const auto* streams = block_.release();
  else if (well_.load(std::memory_order_acquire) || !used)
    give_back(std::move(block_));
  else
    retire(std::move(block_));
}

void DeviceCall::plan(Call& call) {
  Sight sight(device_);
  Layout layout;
  std::vector<std::pair<Extent*, Use>> on_device;
  for_each_extent(call, [&](Extent& extent, Use use) {
    if (!sight.is_on_device(extent.data)) return;
    layout.add(extent);
    on_device.emplace_back(&extent, use);
  });
  block_ = take_pinned_block(device_, stream_, layout.finish());
  value_ = block_->next_value();
  for (const auto& [extent, use] : on_device) {
    const Copy copy{extent->data, block_->data().data() + layout.at(extent->data), extent->bytes};
    add(use == Use::read ? down_ : up_, copy);
    (use == Use::read ? copied_.down : copied_.up) += copy.bytes;
    extent->data = copy.host;
  }
}

// Chunks that lie one after another are one copy.
void DeviceCall::add(std::vector<Copy>& copies, const Copy& copy) {
  if (!copies.empty()) {
    Copy& last = copies.back();
    if (last.device + last.bytes == copy.device && last.host + last.bytes == copy.host) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies.push_back(copy);
}

template <typename Put>
void DeviceCall::put(Put put) {
  try {
    const Within within(device_, context_);
    put();
  } catch (const Error& error) {
    give_up(error);
    throw;
  } catch (const std::bad_alloc&) {
    give_up(Error(ErrorKind::system, "out of memory"));
    throw;
  }
}

void DeviceCall::give_up(const Error& error) const {
  if (const auto communicator = communicator_.lock())
    communicator->give_up(error, "a call on a device's stream");
}

void DeviceCall::put_copies_down() {
  put([&] {
    stream_state_.store(StreamState::at_work, std::memory_order_relaxed);
    for (const Copy& copy : down_) device_.copy(stream_, copy.host, copy.device, copy.bytes);
    device_.call_host(stream_, [self = shared_from_this()] {
      // Sequentially consistent for ring(). Releases the inputs, which the device has shown to this thread.
      self->come_.store(true, std::memory_order_seq_cst);
      self->wake_();
    });
  });
}

void DeviceCall::put_copies_up() {
  put([&] {
    device_.wait_for_word(stream_, block_->word(), value_);
    for (const Copy& copy : up_) device_.copy(stream_, copy.device, copy.host, copy.bytes);
    device_.call_host(stream_, [self = shared_from_this()] {
      self->stream_state_.store(StreamState::done, std::memory_order_release);
    });
  });
}

bool DeviceCall::has_come() const { return come_.load(std::memory_order_seq_cst); }

void DeviceCall::check() const { health_->need_well(); }

void DeviceCall::end(bool well) {
  well_.store(well, std::memory_order_release);
  block_->store(value_);
}

std::shared_ptr<DeviceCall> begin_on(Device& device, DeviceStream stream, DeviceContext context,
                                     Communicator& communicator, Call call) {
  auto begun = std::make_shared<DeviceCall>(device, stream, context, communicator, call);
  if (begun->copied() != CopiedBytes{}) communicator.tell_host_staging();
  start_progress_thread();
  keep_going(communicator.start(std::move(call), nullptr, begun));
  begun->put_copies_down();
  return begun;
}

}  // namespace rondo
