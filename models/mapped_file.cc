#include "models/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "src/error.h"
#include "src/fd.h"

namespace rondo {
namespace {

[[noreturn]] void fail_to(const char* action, const std::filesystem::path& path) {
  fail(ErrorKind::system, "{}: cannot {}: {}", path.string(), action, std::generic_category().message(errno));
}

std::size_t regular_file_size(const Fd& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) fail_to("read its size", path);
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::system, "{}: not a regular file", path.string());
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Not to wait for a writer where the path is a named pipe.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_to("open", path);
  const std::size_t size = regular_file_size(file, path);
  if (size == 0) return;  // mmap refuses a length of 0
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_to("map", path);
  bytes_ = {static_cast<std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace rondo
