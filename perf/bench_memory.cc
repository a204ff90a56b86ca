#include "perf/bench_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <vector>

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

// A rank's host and device, as it tells the others.
struct Place {
  std::array<char, HOST_NAME_MAX + 1> host;
  DeviceIdentity device;
};

std::vector<Place> tell_all(Communicator& communicator, const Place& mine) {
  std::vector<Place> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(&mine), sizeof mine),
                          std::span(reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof mine));
  return all;
}

}  // namespace

std::optional<std::pair<int, int>> take_devices(Communicator& communicator) {
  Place mine{};
  ::gethostname(mine.host.data(), mine.host.size());
  int before = 0;
  const std::vector<Place> hosts = tell_all(communicator, mine);
  for (int rank = 0; rank < communicator.rank(); ++rank)
    before += hosts[static_cast<std::size_t>(rank)].host == mine.host ? 1 : 0;
  used_device().choose(before % used_device().count());
  mine.device = used_device().identity();
  const std::vector<Place> all = tell_all(communicator, mine);
  for (std::size_t b = 0; b < all.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (all[a].host == all[b].host && all[a].device == all[b].device)
        return std::pair{static_cast<int>(a), static_cast<int>(b)};
  return std::nullopt;
}

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
