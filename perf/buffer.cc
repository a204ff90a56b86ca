#include "perf/buffer.h"

#include <cstdlib>
#include <cstring>

#include "include/rondo/rondo.h"
#include "src/error.h"

namespace rondo {
namespace {

constexpr std::size_t page = 4096;

std::byte* allocate(std::size_t bytes, MemoryKind kind) {
  const std::size_t whole_pages = (bytes / page + 1) * page;
  switch (kind) {
    case MemoryKind::malloc:
      return static_cast<std::byte*>(std::malloc(whole_pages));
    case MemoryKind::rondo:
      break;
  }
  void* memory = nullptr;
  rondoMemAlloc(&memory, whole_pages);
  return static_cast<std::byte*>(memory);
}

}  // namespace

MemoryKind parse_memory(const std::string& text) {
  for (const MemoryKind kind : {MemoryKind::malloc, MemoryKind::rondo})
    if (text == name_of(kind)) return kind;
  fail(ErrorKind::invalid_argument, "--memory {}: expected {}", text, memory_kinds());
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::malloc:
      return "malloc";
    case MemoryKind::rondo:
      return "rondo";
  }
  return "?";
}

std::string memory_kinds() { return "malloc or rondo (rondoMemAlloc)"; }

Buffer::Buffer(std::size_t bytes, MemoryKind kind)
    : bytes_(bytes), memory_(allocate(bytes, kind), Free{kind}) {
  if (memory_ == nullptr)
    fail(ErrorKind::system, "no memory for a buffer of {} bytes ({})", bytes, name_of(kind));
  clear();
}

void Buffer::clear() { std::memset(memory_.get(), 0xA5, bytes_); }

void Buffer::Free::operator()(std::byte* memory) const {
  switch (kind) {
    case MemoryKind::malloc:
      std::free(memory);
      return;
    case MemoryKind::rondo:
      rondoMemFree(memory);
      return;
  }
}

}  // namespace rondo
