#include "src/peer_allocations.h"

#include <algorithm>
#include <utility>

#include "src/error.h"
#include "src/log.h"
#include "src/pinned_blocks.h"

namespace rondo {
namespace {

// Told allocations that are looked at in a call: each look asks the driver. Programs with few allocations
// notice all that are gone at the next call, others within some calls.
constexpr int looks_a_call = 8;

// Of one peer. Beyond, all of its are let go: what is still wanted is opened again.
constexpr std::size_t most_open = 1024;
constexpr int most_refusals = 16;

}  // namespace

DeviceReference ToldAllocations::tell(DeviceStream stream, const void* buffer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  drop_some_that_are_gone();
  DeviceReference reference{};
  reference.freed = freed_;
  const auto allocation = device_.allocation_of(buffer);
  if (!allocation) return reference;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(buffer) - allocation->base);
  if (bytes > allocation->bytes - offset) return reference;
  const Told* const told = find_or_add(stream, *allocation);
  if (told == nullptr) return reference;
  reference.number = allocation->number;
  reference.address = reinterpret_cast<std::uintptr_t>(buffer);
  reference.offset = offset;
  reference.handle = told->handle;
  return reference;
}

const ToldAllocations::Told* ToldAllocations::find_or_add(DeviceStream stream,
                                                          const DeviceAllocation& allocation) {
  if (const auto known = told_.find(allocation.number); known != told_.end()) return &known->second;
  const auto handle = device_.handle_of(stream, allocation);
  if (!handle) return nullptr;
  return &told_.emplace(allocation.number, Told{allocation, *handle}).first->second;
}

bool ToldAllocations::is_gone(const DeviceAllocation& allocation) const {
  const auto now = device_.allocation_of(allocation.base);
  return !now || now->number != allocation.number;
}

void ToldAllocations::drop_some_that_are_gone() {
  const auto looks = std::min<std::size_t>(looks_a_call, told_.size());
  for (std::size_t look = 0; look < looks; ++look) {
    auto next = told_.upper_bound(looked_at_);
    if (next == told_.end()) next = told_.begin();
    looked_at_ = next->first;
    if (!is_gone(next->second.allocation)) continue;
    told_.erase(next);
    ++freed_;
  }
}

OpenAllocation::~OpenAllocation() {
  try {
    device_.close(stream_, base_);
  } catch (const Error& error) {
    logger().info("closing a peer's device memory: {}", error.what());
  }
}

std::shared_ptr<const OpenAllocation> PeerAllocations::find(int owner, const DeviceReference& reference) {
  Peer& peer = peers_[owner];
  if (std::exchange(peer.freed, reference.freed) != reference.freed) peer.open.clear();
  const auto known = peer.open.find(reference.number);
  return known == peer.open.end() ? nullptr : known->second;
}

std::shared_ptr<const OpenAllocation> PeerAllocations::open(int owner, const DeviceReference& reference) {
  if (auto known = find(owner, reference)) return known;
  auto& open = peers_[owner].open;
  if (open.size() >= most_open) open.clear();
  std::byte* const base = device_.open(stream_, reference.handle);
  if (base == nullptr) {
    if (++refusals_ == most_refusals)
      fail(ErrorKind::device, "opening of memory of rank {} was refused {} times in a row", owner, refusals_);
    // Whose memory stands in the way is not known: another rank of that process may have told of it.
    for (auto& [rank, peer] : peers_) peer.open.clear();
    return nullptr;
  }
  refusals_ = 0;
  auto fresh = std::make_unique<const OpenAllocation>(device_, stream_, base);
  const std::shared_ptr<const OpenAllocation> opened(fresh.release(), [](const OpenAllocation* last) {
    let_go_between_calls(std::shared_ptr<const OpenAllocation>(last));
  });
  open.emplace(reference.number, opened);
  return opened;
}

void PeerAllocations::need_reach(const DeviceReference& reference) {
  if (reaches(reference)) return;
  const auto allocation = device_.allocation_of(reinterpret_cast<const void*>(reference.address));
  if (!allocation || !device_.reaches(stream_, *allocation))
    fail(ErrorKind::device, "another device's memory in the same process, to which this one has no access");
  if (reached_.size() >= most_open) reached_.clear();
  reached_.insert(reference.number);
}

std::size_t PeerAllocations::open_count() const {
  std::size_t count = 0;
  for (const auto& [owner, peer] : peers_) count += peer.open.size();
  return count;
}

}  // namespace rondo
