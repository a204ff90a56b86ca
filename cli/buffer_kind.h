// Where the buffers of a collective come from, which decides how it can be carried out.
#pragma once

namespace rondo {

enum class BufferKind { malloc, rondo };

inline const char* name_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::malloc:
      return "malloc";
    case BufferKind::rondo:
      return "rondo";
  }
  return "?";
}

}  // namespace rondo
