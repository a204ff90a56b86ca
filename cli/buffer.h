// Memory for one measurement, of one of the kinds that decide how a collective can be carried out.
#pragma once

#include <cstddef>
#include <memory>

#include "cli/buffer_kind.h"

namespace rondo {

class Buffer {
 public:
  // Written, so that no page is first touched while the clock runs.
  Buffer(std::size_t bytes, BufferKind kind);
  std::byte* data() const { return memory_.get(); }
  void clear();

 private:
  struct Free {
    BufferKind kind;
    void operator()(std::byte* memory) const;
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace rondo
