#include "models/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "src/error.h"

namespace rondo {

TemporaryFile::TemporaryFile(const std::filesystem::path& path)
    : target_(path),
      path_(fmt::format("{}.tmp-{}", path.string(), getpid())),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (!file_) fail_to("create");
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

void TemporaryFile::write(std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_to("write");
    }
    offset += static_cast<std::size_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void TemporaryFile::rename() {
  // Some file systems put writes off and report only here that they failed.
  if (fsync(file_.get()) != 0) fail_to("write");
  if (std::rename(path_.c_str(), target_.c_str()) != 0) fail_to("rename");
  path_.clear();
}

void TemporaryFile::fail_to(const char* action) const {
  const int error = errno;
  fail(ErrorKind::system, "{}: cannot {} its temporary file {}: {}", target_.string(), action,
       path_.filename().string(), std::generic_category().message(error));
}

}  // namespace rondo
