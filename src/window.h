// Memory that ranks in other processes can map: what rondoMemAlloc gives, and what was registered so. Each
// window is a memfd that its owner keeps open, so that peers open it through /proc without the owner's help,
// who may be busy. Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/process.h"

namespace rondo {

// Where a buffer lies, as a rank tells its peers.
struct WindowReference {
  std::uint64_t number;   // of its process's windows, never used twice; 0: the buffer is in no window
  std::uint64_t address;  // of the buffer, for ranks in the same process
  std::uint64_t offset;   // of the buffer in the window
  std::uint64_t bytes;    // of the window
  std::uint64_t freed;    // windows that the process has freed so far
  std::int64_t descriptor;
};

// Zeroed memory, whole pages, taken at once so that shortage is an Error and not a SIGBUS. Throws system
// where there is none, invalid_argument for 0 bytes.
void* allocate_window(std::size_t bytes);
// Throws invalid_argument unless `memory` came from allocate_window and was not freed. No rank may be using
// it.
void free_window(void* memory);

// Makes a window of the whole pages that hold [buffer, buffer + bytes): shared pages take their place, and
// addresses and content stay. What else lies in the first and the last page comes along. Nobody may write to
// any of it meanwhile. Returns where the pages begin. Throws invalid_argument unless all of it is private
// heap memory. It must be changed back before it is freed.
void* exchange_pages(const void* buffer, std::size_t bytes);
// `pages`: what exchange_pages returned. No rank may be using them.
void exchange_pages_back(void* pages);

// The window that holds [buffer, buffer + bytes), if there is one.
std::optional<WindowReference> find_window(const void* buffer, std::size_t bytes);

// A peer's window in this process's address space, for as long as it is held.
class MappedWindow {
 public:
  MappedWindow(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  ~MappedWindow();
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_;
  std::size_t bytes_;
};

// Maps a window of another process of this host, once: mappings are kept until their owner has freed a
// window, so that freed memory is not held here for ever, and memory at a used address is never taken for
// what was there before. Throws system where it cannot be mapped.
std::shared_ptr<const MappedWindow> map_window(const ProcessIdentity& owner,
                                               const WindowReference& reference);

// Whether this process can open another's windows: tried on a descriptor that the other one has opened for
// this.
int window_probe();
bool can_open_windows_of(const ProcessIdentity& owner, int probe);

}  // namespace rondo
