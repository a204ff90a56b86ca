#include "src/window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "src/error.h"
#include "src/pages.h"
#include "src/shared_memory.h"

namespace rondo {
namespace {

// This process's own windows.
class OwnWindows {
 public:
  // Never destroyed: programs free memory in destructors of static objects.
  static OwnWindows& instance() {
    static auto* const windows = new OwnWindows;
    return *windows;
  }

  void* allocate(std::size_t bytes) {
    Fd memory = make_shared_memory("rondo-window", bytes, bytes);
    std::byte* base = map_shared_memory(memory, bytes, Pages::now);
    const std::lock_guard lock(mutex_);
    add(base, std::move(memory), bytes, Origin::allocated);
    return base;
  }

  void free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = find(address, Origin::allocated);
    if (found == windows_.end())
      fail(ErrorKind::invalid_argument, "pointer {}: expected memory of rondoMemAlloc that was not freed",
           address);
    ::munmap(address, found->second.bytes);
    remove(found);
  }

  void exchange(std::span<std::byte> pages) {
    const std::lock_guard lock(mutex_);
    add(pages.data(), exchange_for_shared_pages(pages), pages.size(), Origin::exchanged);
  }

  void exchange_back(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = find(address, Origin::exchanged);
    if (found == windows_.end())
      fail(ErrorKind::invalid_argument, "pointer {}: expected memory whose pages were exchanged", address);
    exchange_for_private_pages(found->second.memory, {static_cast<std::byte*>(address), found->second.bytes});
    remove(found);
  }

  std::optional<WindowReference> find(const std::byte* buffer, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto next = windows_.upper_bound(buffer);
    if (next == windows_.begin()) return std::nullopt;
    const auto& [base, window] = *--next;
    const auto offset = static_cast<std::size_t>(buffer - base);
    if (offset > window.bytes || bytes > window.bytes - offset) return std::nullopt;
    return WindowReference{window.number, reinterpret_cast<std::uintptr_t>(buffer),
                           offset,        window.bytes,
                           freed_,        window.memory.get()};
  }

 private:
  enum class Origin { allocated, exchanged };
  struct Window {
    Fd memory;
    std::size_t bytes;
    std::uint64_t number;
    Origin origin;
  };
  using Windows = std::map<const std::byte*, Window>;  // by address

  // What was registered there and freed without a word is there no more.
  void add(const std::byte* base, Fd memory, std::size_t bytes, Origin origin) {
    const auto end = windows_.lower_bound(base + bytes);
    for (auto window = windows_.begin(); window != end;) {
      const auto old = window++;
      if (old->first + old->second.bytes > base) remove(old);
    }
    windows_.emplace(base, Window{std::move(memory), bytes, ++last_number_, origin});
  }
  Windows::iterator find(const void* address, Origin origin) {
    const auto found = windows_.find(static_cast<const std::byte*>(address));
    return found != windows_.end() && found->second.origin == origin ? found : windows_.end();
  }
  void remove(Windows::iterator window) {
    windows_.erase(window);
    ++freed_;
  }

  mutable std::mutex mutex_;
  Windows windows_;
  std::uint64_t last_number_ = 0, freed_ = 0;
};

Fd open_of_process(const ProcessIdentity& owner, std::int64_t descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", owner.pid, descriptor);
  return Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

// The windows of one other process that are mapped here.
struct PeerWindows {
  std::uint64_t freed = 0;                                              // as far as we know
  std::map<std::uint64_t, std::shared_ptr<const MappedWindow>> mapped;  // by number
};

}  // namespace

void* allocate_window(std::size_t bytes) {
  if (bytes == 0) fail(ErrorKind::invalid_argument, "size 0: expected at least 1 byte");
  return OwnWindows::instance().allocate(whole_pages(bytes));
}

void free_window(void* memory) { OwnWindows::instance().free(memory); }

void* exchange_pages(const void* buffer, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer);
  if (bytes > PTRDIFF_MAX || address > UINTPTR_MAX - bytes - page_bytes())
    fail(ErrorKind::invalid_argument, "size {} at {}: expected memory of this process", bytes, buffer);
  const std::size_t before = address % page_bytes();
  auto* const begin = reinterpret_cast<std::byte*>(address - before);
  OwnWindows::instance().exchange({begin, whole_pages(before + bytes)});
  return begin;
}

void exchange_pages_back(void* pages) { OwnWindows::instance().exchange_back(pages); }

std::optional<WindowReference> find_window(const void* buffer, std::size_t bytes) {
  return OwnWindows::instance().find(static_cast<const std::byte*>(buffer), bytes);
}

MappedWindow::~MappedWindow() { ::munmap(base_, bytes_); }

std::shared_ptr<const MappedWindow> map_window(const ProcessIdentity& owner,
                                               const WindowReference& reference) {
  static std::mutex mutex;
  static auto& peers = *new std::map<std::pair<std::int64_t, std::uint64_t>, PeerWindows>;
  const std::lock_guard lock(mutex);
  PeerWindows& peer = peers[{owner.pid, owner.start_time}];
  if (peer.freed != reference.freed) {
    peer.mapped.clear();
    peer.freed = reference.freed;
  }
  auto& known = peer.mapped[reference.number];
  if (!known) {
    const Fd memory = open_of_process(owner, reference.descriptor);
    if (!memory) fail_memory("opening", reference.bytes);
    std::byte* base = map_shared_memory(memory, reference.bytes, Pages::now);
    known = std::make_shared<const MappedWindow>(base, reference.bytes);
  }
  return known;
}

int window_probe() {
  static const Fd probe(::memfd_create("rondo-probe", MFD_CLOEXEC));
  return probe.get();
}

bool can_open_windows_of(const ProcessIdentity& owner, int probe) {
  return static_cast<bool>(open_of_process(owner, probe));
}

}  // namespace rondo
