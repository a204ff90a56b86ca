// Memory for one measurement. The kinds of memory that --memory offers are known here alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace rondo {

enum class MemoryKind { malloc, rondo };
MemoryKind parse_memory(const std::string& text);
const char* name_of(MemoryKind kind);
std::string memory_kinds();  // for help and messages

class Buffer {
 public:
  // Written, so that no page is first touched while the clock runs.
  Buffer(std::size_t bytes, MemoryKind kind);
  std::byte* data() const { return memory_.get(); }
  void clear();

 private:
  struct Free {
    MemoryKind kind;
    void operator()(std::byte* memory) const;
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace rondo
