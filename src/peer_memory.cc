#include "src/peer_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "src/error.h"

namespace rondo {
namespace {

iovec to_iovec(const Extent& extent) { return {extent.data, extent.bytes}; }

// Leaves out the first `bytes` bytes.
void advance(std::vector<iovec>& vectors, std::size_t& first, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t step = std::min(bytes, vectors[first].iov_len);
    vectors[first].iov_base = static_cast<std::byte*>(vectors[first].iov_base) + step;
    vectors[first].iov_len -= step;
    bytes -= step;
    if (vectors[first].iov_len == 0) ++first;
  }
}

std::vector<iovec> to_iovecs(std::span<const Extent> extents) {
  std::vector<iovec> vectors;
  for (const Extent& extent : extents)
    if (extent.bytes > 0) vectors.push_back(to_iovec(extent));
  return vectors;
}

}  // namespace

const std::uint64_t peer_memory_probe = 0x5252'4f4e'444f'2101;

bool can_read_memory_of(const ProcessIdentity& owner, std::uint64_t address) {
  std::uint64_t word = 0;
  const iovec local{&word, sizeof word}, remote{reinterpret_cast<void*>(address), sizeof word};
  return ::process_vm_readv(static_cast<pid_t>(owner.pid), &local, 1, &remote, 1, 0) == sizeof word &&
         word == peer_memory_probe;
}

void read_peer_memory(int rank, const ProcessIdentity& owner, std::span<const Extent> from,
                      std::span<const Extent> to) {
  if (owner.pid == ::getpid()) return copy_extents(from, to);
  std::vector<iovec> remote = to_iovecs(from), local = to_iovecs(to);
  for (std::size_t r = 0, l = 0; r < remote.size();) {
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(owner.pid), &local[l],
                                           std::min<std::size_t>(local.size() - l, IOV_MAX), &remote[r],
                                           std::min<std::size_t>(remote.size() - r, IOV_MAX), 0);
    if (got < 0)
      fail(ErrorKind::remote, "rank {} (process {}) {}", rank, owner.pid,
           errno == ESRCH ? "has died"
                          : fmt::format("does not let its memory be read: {}", std::strerror(errno)));
    advance(remote, r, static_cast<std::size_t>(got));
    advance(local, l, static_cast<std::size_t>(got));
  }
}

std::size_t write_extent_lists(std::span<const Extents> lists, std::span<std::byte> room) {
  std::size_t at = 0;
  const auto put = [&](const void* value, std::size_t bytes) {
    if (at + bytes > room.size()) return false;
    if (bytes > 0) std::memcpy(room.data() + at, value, bytes);
    at += bytes;
    return true;
  };
  for (const Extents& list : lists) {
    const std::uint64_t length = list.size();
    if (!put(&length, sizeof length) || !put(list.data(), list.size() * sizeof(Extent))) return 0;
  }
  return at;
}

std::vector<Extents> read_extent_lists(std::span<const std::byte> room, std::size_t lists) {
  std::vector<Extents> all(lists);
  std::size_t at = 0;
  for (Extents& list : all) {
    std::uint64_t length = 0;
    std::memcpy(&length, room.data() + at, sizeof length);
    at += sizeof length;
    list.resize(length);
    if (length > 0) std::memcpy(list.data(), room.data() + at, length * sizeof(Extent));
    at += length * sizeof(Extent);
  }
  return all;
}

}  // namespace rondo
