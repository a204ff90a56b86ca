#include "src/device_call.h"

#include <algorithm>
#include <map>
#include <new>

#include "kernels/device/job.h"
#include "src/communicator.h"
#include "src/engine.h"
#include "src/errands.h"
#include "src/layouts.h"

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

// The pieces of a call's buffers that `is_staged` says are, and where they go.
struct DeviceCall::Staged {
  std::vector<std::pair<Extent*, Use>> extents;
  Layout layout;
  std::size_t bytes;

  template <typename IsStaged>
  Staged(Call& call, IsStaged is_staged) {
    for_each_extent(call, [&](Extent& extent, Use use) {
      if (!is_staged(extent)) return;
      layout.add(extent);
      extents.emplace_back(&extent, use);
    });
    bytes = layout.finish();
  }
};

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
  companion_ = device_.companion_of(stream);
  health_ = watch(device_, companion_);
  if (device_.is_recorded(stream))
    fail(ErrorKind::invalid_usage,
         "the stream is being recorded (a CUDA graph): calls that the host carries out cannot be");
  at_work_.emplace(stream);
  why_staged_ = plan_windows(communicator, call);
  if (!buffers_) plan_staging(call);
}

// A block that a stream may still use is lost: to be freed it would have to be waited for.
DeviceCall::~DeviceCall() {
  leave_block(std::move(block_), stream_state_.load(std::memory_order_acquire) != StreamState::not_begun);
  leave_block(std::move(staging_), fetching_ == Fetching::copying);
}

void DeviceCall::leave_block(std::unique_ptr<PinnedBlock> block, bool used) const {
  if (!block) return;
  if (stream_state_.load(std::memory_order_acquire) == StreamState::at_work) [[maybe_unused]]
    const auto* streams = block.release();
  else if (well_.load(std::memory_order_acquire) || !used)
    give_back(std::move(block));
  else
    retire(std::move(block));
}

// ---- on windows ----

namespace {

// The job that copies back is empty unless the call goes by the host: too few blocks make that slower, too
// many every call.
constexpr int most_blocks_back = 16;

// In the pinned block: two jobs, the counts of bytes moved, and the pieces.
struct Parts {
  std::size_t counts, pieces, bytes;

  Parts(std::uint64_t groups, std::size_t most_pieces)
      : counts(2 * sizeof(device::Job)),
        pieces(counts + device::most_job_blocks * groups * sizeof(std::uint64_t)),
        bytes(pieces + most_pieces * sizeof(device::Piece)) {}
};

DeviceBuffer tell(ToldAllocations& told, DeviceStream stream, const std::vector<Extents>& chunks) {
  const Extent span = span_of(chunks);
  return {told.tell(stream, span.data, span.bytes), layout_of(chunks, span.data)};
}

}  // namespace

// Why it cannot be, if it cannot.
std::string DeviceCall::plan_windows(Communicator& communicator, const Call& call) {
  if (std::string why_not = communicator.why_not_on_devices(call); !why_not.empty()) return why_not;
  bool on_host = false, out_of_reach = false;
  DeviceAllocation last{};
  for_each_extent(call, [&](const Extent& extent, Use) {
    if (on_host || last.contains(extent.data)) return;
    const auto allocation = device_.allocation_of(extent.data);
    on_host |= !allocation;
    if (!allocation) return;
    out_of_reach |= !device_.has_jobs(stream_, *allocation);
    last = *allocation;
  });
  if (on_host) return fmt::format("rank {} has a buffer in host memory", communicator.rank());
  if (out_of_reach) return fmt::format("rank {} cannot start kernels on its buffers", communicator.rank());
  const Needs needs = needs_of(call.kind, call.root, communicator.rank());
  const std::shared_ptr<DeviceMemories> memories = communicator.device_memories(device_);
  CallDeviceBuffers told{};
  if (needs.input) told.input = tell(memories->told, stream_, call.input);
  if (needs.output) told.output = tell(memories->told, stream_, call.output);
  if ((needs.input && told.input.memory.number == 0) || (needs.output && told.output.memory.number == 0))
    return fmt::format(
        "rank {} has a buffer that other processes cannot open, or pieces of one in several "
        "allocations",
        communicator.rank());
  groups_ = groups_of(call.kind, communicator.size());
  const Parts parts(groups_, most_pieces(call));
  blocks_ = device::blocks_for_job(call.all_bytes());
  block_ = take_pinned_block(device_, stream_, parts.bytes);
  const std::span<std::byte> memory = block_->data().first(parts.bytes);
  std::fill(memory.begin(), memory.end(), std::byte{0});
  std::byte* const on_device = device_.address_of_pinned(stream_, memory.data());
  for (JobMemory* const one : {&move_, &back_}) {
    const std::size_t at = one == &move_ ? 0 : sizeof(device::Job);
    *one = {reinterpret_cast<device::Job*>(memory.data() + at), on_device + at};
    one->job->groups = groups_;
    one->job->moved = reinterpret_cast<std::uint64_t*>(on_device + parts.counts);
    one->job->pieces = reinterpret_cast<const device::Piece*>(on_device + parts.pieces);
  }
  moves_ = block_->next_value();
  done_ = block_->next_value();
  buffers_ = told;
  return "";
}

// Nothing: the driver is to be asked, and may not be; or it has said that it cannot be done now.
std::optional<DeviceCall::Mapping> DeviceCall::mapping_of(PeerAllocations& memories,
                                                          const std::vector<Told>& told, int self,
                                                          bool may_ask) {
  Mapping mapping;
  bool known = true;
  const auto reach = [&](int rank, const DeviceReference& reference) -> std::byte* {
    if (reference.number == 0 || !known) return nullptr;
    if (told[static_cast<std::size_t>(rank)].process == this_process()) {
      // This rank's own was looked at when the call was made.
      if (rank != self && may_ask) memories.need_reach(reference);
      known &= rank == self || memories.reaches(reference);
      return reinterpret_cast<std::byte*>(reference.address);
    }
    const auto open = may_ask ? memories.open(rank, reference) : memories.find(rank, reference);
    known &= open != nullptr;
    if (!open) return nullptr;
    mapping.held.push_back(open);
    return open->base() + reference.offset;
  };
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const CallDeviceBuffers& buffers = told[rank].buffers;
    mapping.peers.push_back({reach(static_cast<int>(rank), buffers.input.memory),
                             reach(static_cast<int>(rank), buffers.output.memory)});
  }
  return known ? std::optional(std::move(mapping)) : std::nullopt;
}

void DeviceCall::map(std::shared_ptr<DeviceMemories> memories, std::vector<Told> told, int self) {
  PeerAllocations& opened = memories->opened.try_emplace(companion_, device_, companion_).first->second;
  if (auto known = mapping_of(opened, told, self, false)) {
    mapping_ = std::move(*known);
    mapped_ = Mapped::yes;
    errand_over_.store(true, std::memory_order_seq_cst);
    return;
  }
  errand_over_.store(false, std::memory_order_relaxed);
  run_errand(
      [call = shared_from_this(), memories = std::move(memories), &opened, told = std::move(told), self] {
        std::optional<Mapping> mapping;
        Mapped mapped = Mapped::never;
        std::string why_not;
        try {
          mapping = mapping_of(opened, told, self, true);
          mapped = mapping ? Mapped::yes : Mapped::not_now;
        } catch (const std::exception& error) {
          why_not = error.what();
        }
        {
          const std::lock_guard lock(call->mutex_);
          if (!call->ended_) {
            if (mapping) call->mapping_ = std::move(*mapping);
            call->mapped_ = mapped;
            call->why_not_mapped_ = std::move(why_not);
          }
        }
        call->errand_over_.store(true, std::memory_order_seq_cst);
        call->wake_();
      });
}

bool DeviceCall::is_mapped_or_not() const { return errand_over_.load(std::memory_order_seq_cst); }

void DeviceCall::move(const Call& call, int rank, std::shared_ptr<void> mark) {
  const Reduction reduction = reduction_of(call, static_cast<int>(mapping_.peers.size()));
  device::ReduceWork work{};
  work.type = reduction.type;
  work.op = reduction.op;
  work.scalar = reduction.scalar;
  work.ranks = reduction.ranks;
  work.complete = true;
  write_windows_job(call, rank, work, mapping_.peers, *move_.job, pieces());
  mark_ = std::move(mark);
  let_move();
}

std::span<device::Piece> DeviceCall::pieces() const {
  const std::span<std::byte> memory = block_->data();
  const std::size_t at = Parts(groups_, 0).pieces;
  return {reinterpret_cast<device::Piece*>(memory.data() + at), (memory.size() - at) / sizeof(device::Piece)};
}

void DeviceCall::let_move() {
  moves_now_ = true;
  block_->store(moves_);
}

bool DeviceCall::has_moved() const { return moved_.load(std::memory_order_seq_cst); }

std::vector<std::uint64_t> DeviceCall::moved_by_group() const {
  const auto* const counts =
      reinterpret_cast<const std::uint64_t*>(block_->data().data() + Parts(groups_, 0).counts);
  std::vector<std::uint64_t> moved(groups_);
  for (std::size_t i = 0; i < static_cast<std::size_t>(blocks_) * groups_; ++i)
    moved[i % groups_] += counts[i];
  return moved;
}

// ---- by host staging ----

void DeviceCall::plan_staging(Call& call) {
  Sight sight(device_);
  Staged staged(call, [&](const Extent& extent) { return sight.is_on_device(extent.data); });
  block_ = take_pinned_block(device_, stream_, staged.bytes);
  done_ = block_->next_value();
  point_to(staged, block_->data().data());
}

// Points what is staged to host memory, and plans its copies.
void DeviceCall::point_to(const Staged& staged, std::byte* memory) {
  for (const auto& [extent, use] : staged.extents) {
    const Copy copy{extent->data, memory + staged.layout.at(extent->data), extent->bytes};
    add(use == Use::read ? down_ : up_, copy);
    (use == Use::read ? copied_.down : copied_.up) += copy.bytes;
    extent->data = copy.host;
  }
}

// Chunks that lie one after another are one copy.
void DeviceCall::add(Copies& copies, const Copy& copy) {
  if (!copies.empty()) {
    Copy& last = copies.back();
    if (last.device + last.bytes == copy.device && last.host + last.bytes == copy.host) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies.push_back(copy);
}

// All of it lies on the device. In the block stand the pieces of both jobs, and then what is copied.
bool DeviceCall::fetch(Call& call) {
  const std::size_t pieces_of_both = 2 * most_pieces(call) * sizeof(device::Piece);
  const auto all = [](const Extent&) { return true; };
  if (fetching_ == Fetching::no) {
    take_staging_block(pieces_of_both + Staged(call, all).bytes);
    fetching_ = Fetching::taking_memory;
    return false;
  }
  if (fetching_ == Fetching::taking_memory) {
    if (!errand_over_.load(std::memory_order_seq_cst)) return false;
    if (refused_) throw Error(*refused_);
    const std::span<std::byte> memory = staging_->data();
    point_to(Staged(call, all), memory.data() + pieces_of_both);
    write_copies(down_, To::host, *move_.job, 0);
    write_copies(up_, To::device, *back_.job, pieces_of_both / 2);
    fetching_ = Fetching::copying;
    let_move();
  }
  return has_moved();
}

void DeviceCall::take_staging_block(std::size_t bytes) {
  errand_over_.store(false, std::memory_order_relaxed);
  run_errand([self = shared_from_this(), bytes] {
    std::unique_ptr<PinnedBlock> block;
    std::byte* on_device = nullptr;
    std::optional<Error> refused;
    try {
      block = take_pinned_block(self->device_, self->companion_, bytes);
      on_device = self->device_.address_of_pinned(self->companion_, block->data().data());
    } catch (const Error& error) {
      refused = error;
    } catch (const std::bad_alloc&) {
      refused = Error(ErrorKind::system, "out of memory");
    }
    {
      const std::lock_guard lock(self->mutex_);
      if (!self->ended_) {
        self->staging_ = std::move(block);
        self->staging_on_device_ = on_device;
        self->refused_ = std::move(refused);
      }
    }
    if (block) give_back(std::move(block));
    self->errand_over_.store(true, std::memory_order_seq_cst);
    self->wake_();
  });
}

void DeviceCall::write_copies(const Copies& copies, To to, device::Job& job, std::size_t offset) const {
  std::byte* const memory = staging_->data().data();
  auto* const pieces = reinterpret_cast<device::Piece*>(memory + offset);
  job.copies = true;
  job.work.source_count = job.work.target_count = 1;
  job.pieces = reinterpret_cast<const device::Piece*>(staging_on_device_ + offset);
  for (const Copy& copy : copies) {
    const auto on_device = reinterpret_cast<std::uintptr_t>(copy.device);
    const auto on_host = reinterpret_cast<std::uintptr_t>(staging_on_device_ + (copy.host - memory));
    pieces[job.piece_count++] = to == To::host ? device::Piece{on_device, on_host, copy.bytes, 0}
                                               : device::Piece{on_host, on_device, copy.bytes, 0};
    job.bytes += copy.bytes;
  }
}

// ---- on the stream ----

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

void DeviceCall::put_arrival() {
  put([&] {
    stream_state_.store(StreamState::at_work, std::memory_order_relaxed);
    if (!buffers_)
      for (const Copy& copy : down_) device_.copy(stream_, copy.host, copy.device, copy.bytes);
    device_.call_host(stream_, [self = shared_from_this()] {
      // Sequentially consistent for ring(). Releases the inputs, which the device has shown to this thread.
      self->come_.store(true, std::memory_order_seq_cst);
      self->wake_();
    });
  });
}

void DeviceCall::put_move() {
  if (!buffers_) return;
  put([&] {
    device_.wait_for_word(stream_, block_->word(), moves_);
    device_.do_job(stream_, move_.for_kernels(), blocks_);
    device_.call_host(stream_, [self = shared_from_this()] {
      self->mark_ = nullptr;
      self->moved_.store(true, std::memory_order_seq_cst);
      self->wake_();
    });
  });
}

void DeviceCall::put_departure() {
  put([&] {
    device_.wait_for_word(stream_, block_->word(), done_);
    if (buffers_)
      device_.do_job(stream_, back_.for_kernels(), std::min(blocks_, most_blocks_back));
    else
      for (const Copy& copy : up_) device_.copy(stream_, copy.device, copy.host, copy.bytes);
    device_.call_host(stream_, [self = shared_from_this()] {
      self->stream_state_.store(StreamState::done, std::memory_order_release);
    });
  });
}

bool DeviceCall::has_come() const { return come_.load(std::memory_order_seq_cst); }

void DeviceCall::check() const { health_->need_well(); }

// Peers' memory that the stream may still use stays open for ever.
void DeviceCall::end(bool well) {
  well_.store(well, std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (moves_now_ && !has_moved()) [[maybe_unused]]
      const auto* streams = std::make_unique<Mapping>(std::move(mapping_)).release();
    mapping_ = {};
  }
  block_->store(done_);
}

std::shared_ptr<DeviceCall> begin_on(Device& device, DeviceStream stream, DeviceContext context,
                                     Communicator& communicator, Call call) {
  auto begun = std::make_shared<DeviceCall>(device, stream, context, communicator, call);
  if (begun->copied() != CopiedBytes{}) communicator.tell_host_staging(begun->why_staged());
  start_progress_thread();
  keep_going(communicator.start(std::move(call), nullptr, begun));
  begun->put_arrival();
  return begun;
}

}  // namespace rondo
