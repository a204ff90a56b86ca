// Reading other processes' memory as it lies, where the kernel permits it (process_vm_readv): calls on memory
// from malloc then move each byte once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/extent.h"
#include "src/process.h"

namespace rondo {

// The word that probes look for, in every process.
extern const std::uint64_t peer_memory_probe;

// Whether this process may read `owner`, tried on the owner's probe at `address`.
bool can_read_memory_of(const ProcessIdentity& owner, std::uint64_t address);

// Copies `from`, in the owner's address space, to `to`, in ours: as many bytes in each. Throws remote where
// they cannot be read (any more), naming the rank, which is the owner.
void read_peer_memory(int rank, const ProcessIdentity& owner, std::span<const Extent> from,
                      std::span<const Extent> to);

// Lists of extents as they stand in shared memory for the peers: for each list its length, then its extents.
// Returns the bytes written; 0: they do not fit, and nothing of use was written.
std::size_t write_extent_lists(std::span<const Extents> lists, std::span<std::byte> room);
std::vector<Extents> read_extent_lists(std::span<const std::byte> room, std::size_t lists);

}  // namespace rondo
