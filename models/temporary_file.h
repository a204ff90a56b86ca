// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "src/fd.h"

namespace rondo {

// A file under another name, "PATH.tmp-PID", until it is renamed. A process may have one of them for each
// path.
class TemporaryFile {
 public:
  // Creates the file, or empties one that was left behind. Throws Error (system).
  explicit TemporaryFile(const std::filesystem::path& path);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  // Removes the file unless it was renamed.
  ~TemporaryFile();

  // Writes all bytes at an offset from the file's begin. Throws Error (system), such as where the disk is
  // full.
  void write(std::size_t offset, std::span<const std::byte> bytes);
  // Gives the file its name, in place of a file that has it; call it once. Throws Error (system).
  void rename();

 private:
  [[noreturn]] void fail_to(const char* action) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // empty once renamed
  Fd file_;
};

}  // namespace rondo
