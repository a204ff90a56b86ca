#include "cli/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/error.h"
#include "src/window.h"

namespace rondo {
namespace {

std::byte* allocate(std::size_t bytes, BufferKind kind) {
  const std::size_t some = std::max<std::size_t>(bytes, 1);
  switch (kind) {
    case BufferKind::malloc:
      // Where malloc puts it: large blocks begin in the middle of a cache line.
      return static_cast<std::byte*>(std::malloc(some));
    case BufferKind::rondo:
      return static_cast<std::byte*>(allocate_window(some));
  }
  return nullptr;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, BufferKind kind)
    : bytes_(bytes), memory_(allocate(bytes, kind), Free{kind}) {
  if (memory_ == nullptr)
    fail(ErrorKind::system, "no memory for a buffer of {} bytes ({})", bytes, name_of(kind));
  clear();
}

void Buffer::clear() { std::memset(memory_.get(), 0xA5, bytes_); }

void Buffer::Free::operator()(std::byte* memory) const {
  switch (kind) {
    case BufferKind::malloc:
      std::free(memory);
      return;
    case BufferKind::rondo:
      free_window(memory);
      return;
  }
}

}  // namespace rondo
