#include "src/window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "src/error.h"

namespace rondo {
namespace {

[[noreturn]] void fail_window(const char* what, std::size_t bytes) {
  const int error = errno;
  fail(ErrorKind::system, "{} of a window of {} bytes: {}", what, bytes, std::strerror(error));
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::byte* map_shared(const Fd& memory, std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory.get(), 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

// This process's own windows.
class OwnWindows {
 public:
  // Never destroyed: programs free memory in destructors of static objects.
  static OwnWindows& instance() {
    static auto* const windows = new OwnWindows;
    return *windows;
  }

  void* allocate(std::size_t bytes) {
    Fd memory(::memfd_create("rondo-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory) fail_window("memfd_create", bytes);
    if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) fail_window("ftruncate", bytes);
    if (::fallocate(memory.get(), 0, 0, static_cast<off_t>(bytes)) != 0) fail_window("fallocate", bytes);
    if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      fail_window("sealing", bytes);
    std::byte* base = map_shared(memory, bytes);
    if (base == nullptr) fail_window("mmap", bytes);
    const std::lock_guard lock(mutex_);
    windows_.emplace(base, Window{std::move(memory), bytes, ++last_number_});
    return base;
  }

  void free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(static_cast<const std::byte*>(address));
    if (found == windows_.end())
      fail(ErrorKind::invalid_argument, "pointer {}: expected memory of rondoMemAlloc that was not freed",
           address);
    ::munmap(address, found->second.bytes);
    windows_.erase(found);
    ++freed_;
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
  struct Window {
    Fd memory;
    std::size_t bytes;
    std::uint64_t number;
  };

  mutable std::mutex mutex_;
  std::map<const std::byte*, Window> windows_;  // by address
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
    if (!memory) fail_window("opening", reference.bytes);
    std::byte* base = map_shared(memory, reference.bytes);
    if (base == nullptr) fail_window("mapping", reference.bytes);
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
