#include "src/shared_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "src/error.h"
#include "src/pages.h"

namespace rondo {
namespace {

// A file over the limit would raise SIGXFSZ, which ends the process.
void check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    fail(ErrorKind::system, "shared memory of {} bytes is over the file size limit of {} (ulimit -f)", bytes,
         limit.rlim_cur);
}

// In small parts: a signal interrupts fallocate, which then gives back all that it took in this call.
void take(const Fd& memory, std::size_t bytes) {
  const std::size_t part = 16 * page_bytes();
  for (std::size_t offset = 0; offset < bytes;) {
    const std::size_t size = std::min(part, bytes - offset);
    if (::fallocate(memory.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0)
      offset += size;
    else if (errno != EINTR)
      fail_memory("fallocate", bytes);
  }
}

// Takes the place of what was at `address`, in one step: there is no moment at which nothing stands there.
void move_to(std::byte* address, void* pages, std::size_t bytes) {
  // Not by mremap(): UCX, where it is loaded, puts its own in that place, which forgets the address.
  if (::syscall(SYS_mremap, pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) != -1) return;
  const int error = errno;
  ::munmap(pages, bytes);
  errno = error;
  fail_memory("moving", bytes);
}

// Reads or writes all of the memory. The kernel copies, since sanitizers would stumble over what lies between
// the heap's blocks.
void copy_all(long call, const Fd& memory, std::span<std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const long moved = ::syscall(call, memory.get(), bytes.data() + done, bytes.size() - done, done);
    if (moved > 0)
      done += static_cast<std::size_t>(moved);
    else if (moved == 0 || errno != EINTR)
      fail_memory("copying", bytes.size());
  }
}

// One line of /proc/self/maps.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::string permissions, name;

  bool is_heap() const {
    const bool anonymous = name.empty() || name == "[heap]" || name.starts_with("[anon");
    return anonymous && permissions == "rw-p";
  }
};

Mapping mapping_from(const std::string& line) {
  Mapping mapping;
  std::istringstream words(line);
  std::string offset, device, inode;
  char dash = 0;
  words >> std::hex >> mapping.begin >> dash >> mapping.end >> mapping.permissions >> offset >> device >>
      inode >> mapping.name;
  return mapping;
}

// /proc names the stack of the first thread only.
bool touches_own_stack(std::span<const std::byte> pages) {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return false;
  void* begin = nullptr;
  std::size_t bytes = 0;
  ::pthread_attr_getstack(&attributes, &begin, &bytes);
  ::pthread_attr_destroy(&attributes);
  const auto* stack = static_cast<const std::byte*>(begin);
  return pages.data() < stack + bytes && stack < pages.data() + pages.size();
}

void need_private_memory(std::span<const std::byte> pages) {
  if (touches_own_stack(pages))
    fail(ErrorKind::invalid_argument, "the page at {} is of this thread's stack: expected memory from malloc",
         static_cast<const void*>(pages.data()));
  const auto begin = reinterpret_cast<std::uintptr_t>(pages.data()), end = begin + pages.size();
  std::uintptr_t seen = begin;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; seen < end && std::getline(maps, line);) {
    const Mapping mapping = mapping_from(line);
    if (mapping.end <= seen) continue;
    if (mapping.begin > seen || !mapping.is_heap()) break;
    seen = mapping.end;
  }
  if (seen < end)
    fail(
        ErrorKind::invalid_argument,
        "the page at {:#x} is no private heap memory: expected memory from malloc or mmap, no stack, file or "
        "shared memory, and no page that is registered already",
        seen);
}

}  // namespace

void fail_memory(const char* what, std::size_t bytes) {
  const int error = errno;
  fail(ErrorKind::system, "{} of {} bytes of shared memory: {}", what, bytes, std::strerror(error));
}

Fd make_shared_memory(const char* name, std::size_t bytes, std::size_t taken) {
  check_file_size_limit(bytes);
  Fd memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) fail_memory("memfd_create", bytes);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) fail_memory("ftruncate", bytes);
  take(memory, taken);
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    fail_memory("sealing", bytes);
  return memory;
}

std::byte* map_shared_memory(const Fd& memory, std::size_t bytes, Pages pages) {
  const int flags = MAP_SHARED | (pages == Pages::now ? MAP_POPULATE : 0);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, memory.get(), 0);
  if (base == MAP_FAILED) fail_memory("mmap", bytes);
  return static_cast<std::byte*>(base);
}

Fd exchange_for_shared_pages(std::span<std::byte> pages) {
  need_private_memory(pages);
  Fd memory = make_shared_memory("rondo-window", pages.size(), pages.size());
  copy_all(SYS_pwrite64, memory, pages);
  move_to(pages.data(), map_shared_memory(memory, pages.size(), Pages::now), pages.size());
  return memory;
}

void exchange_for_private_pages(const Fd& memory, std::span<std::byte> pages) {
  void* const copy =
      ::mmap(nullptr, pages.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) fail_memory("mmap", pages.size());
  copy_all(SYS_pread64, memory, {static_cast<std::byte*>(copy), pages.size()});
  move_to(pages.data(), copy, pages.size());
}

}  // namespace rondo
