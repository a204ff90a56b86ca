// A file's bytes as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace rondo {

// Maps a regular file of any size, also an empty one; pages are read when they are touched. The file must not
// shrink while it is mapped: the kernel answers a touch beyond its end with SIGBUS. Replacing it by a rename
// is safe. May be read from any thread.
class MappedFile {
 public:
  // Throws Error (system) where the path cannot be opened or mapped, or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid as long as this object, or the one it was moved to.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace rondo
