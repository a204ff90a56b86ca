#include "perf/bench_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "src/error.h"

namespace rondo {
namespace {

// What the child exits with.
constexpr int has_device = 0, has_no_driver = 1, has_no_memory = 2;

int look_for_device() {
  Device* const device = process_device();
  if (device == nullptr) return has_no_driver;
  try {
    device->free(device->allocate(1));
    return has_device;
  } catch (const Error&) {
    return has_no_memory;
  }
}

Device& used_device() {
  Device* const found = process_device();
  if (found == nullptr) fail(ErrorKind::device, "no device in this process");
  return *found;
}

}  // namespace

std::string why_no_device_memory() {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look_for_device());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) < 0) return "no process can be started to look for a GPU";
  if (status == 0) return "";
  return WIFEXITED(status) && WEXITSTATUS(status) == has_no_driver
             ? "no CUDA driver is here, or Rondo was built without CUDA"
             : "the CUDA driver that is here gives no memory: no GPU";
}

BenchStream::BenchStream() : stream_(used_device().make_stream()) {}
BenchStream::~BenchStream() {
  try {
    used_device().destroy_stream(stream_);
  } catch (const Error&) {
    // A device that has failed: the measurement has told so.
  }
}
void BenchStream::synchronize() const { used_device().synchronise(stream_); }

// A device has no memory of 0 bytes.
BenchMemory::BenchMemory(std::size_t bytes, BufferKind kind, const BenchStream* stream)
    : bytes_(stream == nullptr ? bytes : std::max<std::size_t>(bytes, 1)),
      host_(bytes_, kind),
      stream_(stream) {
  if (stream_ == nullptr) return;
  used_device().pin(stream_->get(), {host_.data(), bytes_});
  device_ = used_device().allocate(bytes_);
}

BenchMemory::~BenchMemory() {
  if (stream_ == nullptr) return;
  try {
    stream_->synchronize();
    used_device().free(device_);
    used_device().unpin(stream_->get(), host_.data());
  } catch (const Error&) {
    // As above.
  }
}

void BenchMemory::copy(std::byte* to, const std::byte* from) const {
  if (stream_ == nullptr) return;
  used_device().copy(stream_->get(), to, from, bytes_);
  stream_->synchronize();
}

}  // namespace rondo
