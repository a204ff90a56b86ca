#include "tests/stand_in_device.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

#include "kernels/device/job.h"
#include "src/error.h"
#include "src/pages.h"
#include "src/shared_memory.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

// What a handle holds. The file's own number tells when the descriptor stands for something else by now.
struct HandleContent {
  std::int64_t process, descriptor;
  std::uint64_t file, bytes, address;
};

std::uint64_t number_of(const Fd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

// The contexts in which this thread stands: default streams are the last one's.
std::vector<DeviceContext>& entered() {
  thread_local std::vector<DeviceContext> contexts;
  return contexts;
}

// Pinned memory has another address on the device than on the host, as it may have.
constexpr std::uintptr_t device_side = std::uintptr_t{1} << 62;

bool is_for_kernels(const std::byte* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & device_side) != 0;
}
std::byte* for_kernels(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) | device_side);
}
std::byte* for_host(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~device_side);
}

std::uint32_t load(const std::uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

}  // namespace

// Work in order, on a thread of its own.
class StandInDevice::Queue {
 public:
  explicit Queue(const std::atomic<bool>& broken)
      : broken_(broken), thread_([this](std::stop_token stop) { run(stop); }) {}

  ~Queue() { ending_ = true; }

  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  // Work that waits looks at this now and then.
  bool given_up() const { return broken_ || ending_; }

  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (work_.empty() && !busy_) || broken_; });
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !work_.empty(); })) {
      const auto work = std::move(work_.front());
      work_.pop_front();
      busy_ = true;
      lock.unlock();
      if (!broken_) work();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  const std::atomic<bool>& broken_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  std::atomic<bool> ending_{false};
  std::jthread thread_;
};

StandInDevice::StandInDevice() : host_functions_(std::make_unique<Queue>(broken_)) {}

StandInDevice::~StandInDevice() {
  queues_.clear();
  host_functions_ = nullptr;
  for (const auto& [base, memory] : memories_) {
    ::munmap(const_cast<std::byte*>(base), memory.bytes);
    ::munmap(memory.alias, memory.bytes);
  }
  for (const auto& [bytes, address] : free_addresses_) ::munmap(address, bytes);
}

void StandInDevice::choose(int which) {
  if (which != 0) fail(ErrorKind::device, "stand-in: no device {}", which);
}

std::optional<DeviceAllocation> StandInDevice::allocation_of(const void* pointer) const {
  const auto* const data = static_cast<const std::byte*>(pointer);
  const std::lock_guard lock(mutex_);
  auto found = memories_.upper_bound(data);
  if (found == memories_.begin()) return std::nullopt;
  --found;
  const DeviceAllocation allocation{const_cast<std::byte*>(found->first), found->second.bytes,
                                    found->second.number};
  return allocation.contains(data) ? std::optional(allocation) : std::nullopt;
}

std::byte* StandInDevice::allocate(std::size_t bytes) {
  need_willing(Refused::allocate);
  const std::size_t whole = whole_pages(std::max<std::size_t>(bytes, 1));
  if (allocated_bytes() + whole > most_bytes_) fail(ErrorKind::device, "stand-in: out of memory");
  return add(make_shared_memory("stand-in-device", whole, 0), whole, std::nullopt);
}
void StandInDevice::free(std::byte* memory) {
  if (is_open_elsewhere(memory)) ++freed_while_open_;
  remove(memory, false);
}

// Whoever opens memory shares a lock of its file.
bool StandInDevice::is_open_elsewhere(const std::byte* base) const {
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(base);
  return found != memories_.end() && ::flock(found->second.file.get(), LOCK_EX | LOCK_NB) != 0;
}

// At an address that was free'd last, if it fits; and for the streams at another one.
std::byte* StandInDevice::add(Fd file, std::size_t bytes, const std::optional<Home>& opened) {
  const std::lock_guard lock(mutex_);
  std::byte* base = nullptr;
  if (const auto again = free_addresses_.find(bytes); again != free_addresses_.end()) {
    base = again->second;
    free_addresses_.erase(again);
  } else {
    void* const fresh = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) fail(ErrorKind::device, "stand-in: no addresses for {} bytes", bytes);
    base = static_cast<std::byte*>(fresh);
  }
  std::byte* const alias = map_shared_memory(file, bytes, Pages::when_touched);
  memories_.emplace(base, Memory{std::move(file), alias, bytes, ++last_number_, opened});
  return base;
}

void StandInDevice::remove(std::byte* base, bool opened) {
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(base);
  if (found == memories_.end() || found->second.opened.has_value() != opened)
    fail(ErrorKind::device, "stand-in: {} is not the base of memory that was {}", static_cast<void*>(base),
         opened ? "opened" : "allocated");
  ::munmap(found->second.alias, found->second.bytes);
  free_addresses_.emplace(found->second.bytes, base);
  memories_.erase(found);
}

std::optional<DeviceMemoryHandle> StandInDevice::handle_of(DeviceStream, const DeviceAllocation& allocation) {
  const std::lock_guard lock(mutex_);
  const Memory& memory = memories_.at(allocation.base);
  const HandleContent content{::getpid(), memory.file.get(), number_of(memory.file), memory.bytes,
                              reinterpret_cast<std::uintptr_t>(allocation.base)};
  DeviceMemoryHandle handle{};
  std::memcpy(&handle, &content, sizeof content);
  return handle;
}

std::byte* StandInDevice::open(DeviceStream, const DeviceMemoryHandle& handle) {
  wait_for_driver();
  need_willing(Refused::open);
  HandleContent content{};
  std::memcpy(&content, &handle, sizeof content);
  if (content.process == ::getpid())
    fail(ErrorKind::device, "stand-in: a process cannot open its own memory");
  const Home home{content.process, content.address};
  if (opens_each_address_once_ && is_open(home)) return nullptr;
  const std::string path = fmt::format("/proc/{}/fd/{}", content.process, content.descriptor);
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file || number_of(file) != content.file)
    fail(ErrorKind::device, "stand-in: the memory that the handle names is no more");
  ::flock(file.get(), LOCK_SH | LOCK_NB);
  return add(std::move(file), content.bytes, home);
}
bool StandInDevice::is_open(const Home& home) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(memories_.begin(), memories_.end(),
                     [&](const auto& one) { return one.second.opened == home; });
}
void StandInDevice::close(DeviceStream, std::byte* base) {
  wait_for_driver();
  if (waiting_ > 0) ++closed_while_waiting_;
  remove(base, true);
}

DeviceContext StandInDevice::context_of(DeviceStream stream) const {
  return stream == nullptr && !entered().empty() ? entered().back() : nullptr;
}
void StandInDevice::enter(DeviceContext context) { entered().push_back(context); }
void StandInDevice::leave() { entered().pop_back(); }

DeviceStream StandInDevice::make_stream() {
  const std::lock_guard lock(mutex_);
  auto queue = std::make_unique<Queue>(broken_);
  const DeviceStream stream = queue.get();
  queues_.emplace(std::pair{stream, nullptr}, std::move(queue));
  return stream;
}

void StandInDevice::make_stream(DeviceStream name) {
  const std::lock_guard lock(mutex_);
  queues_.emplace(std::pair{name, nullptr}, std::make_unique<Queue>(broken_));
}

void StandInDevice::destroy_stream(DeviceStream stream) {
  synchronise(stream);
  const std::lock_guard lock(mutex_);
  queues_.erase({stream, nullptr});
}

StandInDevice::Queue& StandInDevice::queue_of(DeviceStream stream) const {
  const std::lock_guard lock(mutex_);
  if (stream != nullptr) return *queues_.at({stream, nullptr});
  std::unique_ptr<Queue>& queue = queues_[{nullptr, context_of(nullptr)}];
  if (!queue) queue = std::make_unique<Queue>(broken_);
  return *queue;
}

void StandInDevice::pin(DeviceStream, std::span<std::byte> memory) {
  need_whole();
  const std::lock_guard lock(mutex_);
  pinned_.emplace(memory.data(), memory.size());
}
void StandInDevice::unpin(DeviceStream, std::byte* memory) {
  const std::lock_guard lock(mutex_);
  if (waiting_ > 0) ++unpinned_while_waiting_;
  if (pinned_.erase(memory) == 0) fail(ErrorKind::device, "stand-in: not pinned");
}

// The alias of device memory, or pinned memory itself.
std::byte* StandInDevice::reachable(const std::byte* data, std::size_t bytes) const {
  if (is_for_kernels(data)) {
    data = for_host(data);
    if (allocation_of(data)) fail(ErrorKind::device, "stand-in: not pinned memory's address");
  }
  if (const auto allocation = allocation_of(data)) {
    const auto offset = static_cast<std::size_t>(data - allocation->base);
    if (bytes > allocation->bytes - offset) fail(ErrorKind::device, "stand-in: beyond an allocation's end");
    const std::lock_guard lock(mutex_);
    return memories_.at(allocation->base).alias + offset;
  }
  const std::lock_guard lock(mutex_);
  const auto next = pinned_.upper_bound(data);
  if (next == pinned_.begin() || data + bytes > std::prev(next)->first + std::prev(next)->second)
    fail(ErrorKind::device, "stand-in: {} is neither device memory nor pinned",
         static_cast<const void*>(data));
  return const_cast<std::byte*>(data);
}

std::byte* StandInDevice::reachable_in(DeviceContext context, const std::byte* data,
                                       std::size_t bytes) const {
  const auto allocation = allocation_of(data);
  if (allocation && !may_touch(context, allocation->base))
    fail(ErrorKind::device, "stand-in: another device's memory, without access to it");
  return reachable(data, bytes);
}

void StandInDevice::put(DeviceStream stream, std::function<void()> work) {
  need_whole();
  queue_of(stream).put(std::move(work));
}

void StandInDevice::copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  need_willing(Refused::copy);
  put(stream, [target = reachable(to, bytes), source = reachable(from, bytes), bytes] {
    std::memcpy(target, source, bytes);
  });
}

std::byte* StandInDevice::address_of_pinned(DeviceStream, const std::byte* memory) const {
  return for_kernels(reachable(memory, 1));
}

void StandInDevice::clear(DeviceStream stream, std::byte* memory, std::size_t bytes) {
  put(stream, [target = reachable(memory, bytes), bytes] { std::memset(target, 0, bytes); });
}

bool StandInDevice::has_jobs(DeviceStream, const DeviceAllocation& allocation) const {
  wait_for_driver();
  return has_jobs_ && allocation_of(allocation.base).has_value();
}

void StandInDevice::do_job(DeviceStream stream, const device::Job* job, int blocks) {
  need_willing(Refused::job);
  if (!is_for_kernels(reinterpret_cast<const std::byte*>(job)))
    fail(ErrorKind::device, "stand-in: a job at an address of the host");
  blocks_of_last_job_ = blocks;
  put(stream, [this, job, blocks, context = entered().empty() ? nullptr : entered().back()] {
    do_now(context,
           *reinterpret_cast<const device::Job*>(
               reachable(reinterpret_cast<const std::byte*>(job), sizeof *job)),
           blocks);
  });
}

// What the kernel does, with one thread a block.
void StandInDevice::do_now(DeviceContext context, const device::Job& job, int blocks) const {
  if (job.piece_count == 0) return;
  ++jobs_begun_;
  std::this_thread::sleep_for(job_time_.load());
  const auto reach = [&](const auto* address, std::size_t count) {
    using T = std::remove_pointer_t<decltype(address)>;
    return reinterpret_cast<T*>(
        reachable(reinterpret_cast<const std::byte*>(address), count * sizeof(*address)));
  };
  device::Job here = job;
  here.pieces = reach(job.pieces, job.piece_count);
  here.moved = const_cast<std::uint64_t*>(
      reach(const_cast<const std::uint64_t*>(job.moved), static_cast<std::size_t>(blocks) * job.groups));
  device::BlockMemory own;
  for (int block = 0; block < blocks; ++block)
    device::JobBlock(here, own, {block, blocks, 0, 1}, [&](std::byte* address, std::size_t bytes) {
      return reachable_in(context, address, bytes);
    }).run();
}

void StandInDevice::call_host(DeviceStream stream, std::function<void()> body) {
  Queue& queue = queue_of(stream);
  put(stream, [this, &queue, body = std::move(body)] {
    const auto ran = std::make_shared<std::promise<void>>();
    host_functions_->put([body, ran] {
      body();
      ran->set_value();
    });
    for (const auto done = ran->get_future();
         done.wait_for(1ms) != std::future_status::ready && !queue.given_up();) {
    }
  });
}

void StandInDevice::wait_for_word(DeviceStream stream, const std::uint32_t* word, std::uint32_t value) {
  if (refused_ == Refused::wait_late) std::this_thread::sleep_for(100ms);
  need_willing(Refused::wait_late);
  reachable(reinterpret_cast<const std::byte*>(word), sizeof *word);
  Queue& queue = queue_of(stream);
  put(stream, [this, &queue, word, value] {
    ++waiting_;
    while (static_cast<std::int32_t>(load(word) - value) < 0 && !queue.given_up())
      std::this_thread::sleep_for(20us);
    --waiting_;
  });
}

void StandInDevice::wait_for_word_at(DeviceStream stream, const std::byte* word, std::uint32_t value) {
  if (!is_for_kernels(word)) fail(ErrorKind::device, "stand-in: not a device's address of pinned memory");
  wait_for_word(stream, reinterpret_cast<const std::uint32_t*>(for_host(word)), value);
}

bool StandInDevice::is_recorded(DeviceStream) const { return recorded_; }
DeviceStream StandInDevice::companion_of(DeviceStream) { return nullptr; }
void StandInDevice::check(DeviceStream) const {
  while (checks_held_) std::this_thread::sleep_for(1ms);
  need_whole();
}

void StandInDevice::synchronise(DeviceStream stream) {
  queue_of(stream).wait_until_idle();
  need_whole();
}

void StandInDevice::wait_for_driver() const {
  while (driver_held_) std::this_thread::sleep_for(1ms);
}

void StandInDevice::need_whole() const {
  if (broken_) fail(ErrorKind::device, "stand-in: broken down, as the test wants it");
}

void StandInDevice::need_willing(Refused what) const {
  need_whole();
  if (refused_ == what) fail(ErrorKind::device, "stand-in: refused, as the test wants it");
}

std::size_t StandInDevice::pinned_count() const {
  const std::lock_guard lock(mutex_);
  return pinned_.size();
}

std::size_t StandInDevice::open_count() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [base, memory] : memories_) count += memory.opened ? 1 : 0;
  return count;
}

std::size_t StandInDevice::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [base, memory] : memories_) bytes += memory.opened ? 0 : memory.bytes;
  return bytes;
}

}  // namespace rondo::test
