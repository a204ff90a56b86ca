#include "src/peer_allocations.h"

#include <algorithm>
#include <utility>

#include "src/error.h"
#include "src/log.h"

namespace rondo {
namespace {

// Told allocations that are looked at in a call: each look asks the driver. Programs with few allocations
// notice all that are gone at the next call, others within some calls.
constexpr int looks_a_call = 8;

// Of one peer. Beyond, all of its are let go: what is still wanted is opened again.
constexpr std::size_t most_open = 1024;

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

std::shared_ptr<const OpenAllocation> PeerAllocations::open(const ProcessIdentity& owner,
                                                            const DeviceReference& reference) {
  Peer& peer = peer_of(owner);
  if (std::exchange(peer.freed, reference.freed) != reference.freed) let_go(peer);
  close_what_is_unused();
  if (const auto known = peer.open.find(reference.number); known != peer.open.end()) return known->second;
  if (peer.open.size() >= most_open) let_go(peer);
  auto opened =
      std::make_shared<const OpenAllocation>(device_, stream_, device_.open(stream_, reference.handle));
  peer.open.emplace(reference.number, opened);
  return opened;
}

void PeerAllocations::forget(const ProcessIdentity& owner) {
  let_go(peer_of(owner));
  close_what_is_unused();
}

std::size_t PeerAllocations::open_count() const {
  std::size_t count = let_go_.size();
  for (const Peer& peer : peers_) count += peer.open.size();
  return count;
}

PeerAllocations::Peer& PeerAllocations::peer_of(const ProcessIdentity& owner) {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.process == owner; });
  return found != peers_.end() ? *found : peers_.emplace_back(Peer{owner, 0, {}});
}

void PeerAllocations::let_go(Peer& peer) {
  for (auto& [number, allocation] : peer.open) let_go_.push_back(std::move(allocation));
  peer.open.clear();
}

void PeerAllocations::close_what_is_unused() {
  std::erase_if(let_go_, [](const auto& allocation) { return allocation.use_count() == 1; });
}

}  // namespace rondo
