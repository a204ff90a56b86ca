// Jobs for streams (kernels/device/job.h), as calls are made into them.
#pragma once

#include <span>
#include <vector>

#include "src/call.h"
#include "src/device.h"
#include "src/traffic.h"

namespace rondo {

namespace device {
struct Job;
struct Piece;
struct ReduceWork;
}  // namespace device

// A job in pinned memory, and where kernels find it.
struct JobMemory {
  device::Job* job = nullptr;
  std::byte* on_device = nullptr;

  const device::Job* for_kernels() const { return reinterpret_cast<const device::Job*>(on_device); }
};

// A rank's buffers that others touch, from their first byte on, as this rank's device reaches them.
struct PeerBuffersOnDevice {
  std::byte* input;
  std::byte* output;
};

// Room for the pieces of any job of the call.
std::size_t most_pieces(const Call& call);
// How many counts of bytes such a job has: an all-to-all's are by the rank that they come from.
std::uint64_t groups_of(CallKind kind, int size);

// This rank's part of a call on windows. Writes the pieces, and what the job says but for where they are.
void write_windows_job(const Call& call, int rank, const device::ReduceWork& reduction,
                       std::span<const PeerBuffersOnDevice> peers, device::Job& job,
                       std::span<device::Piece> pieces);

// Adds what such a job has moved to the bytes of this rank.
void count_windows_job(CallKind kind, int root, int rank, std::span<const std::uint64_t> moved_by_group,
                       Traffic& to);

}  // namespace rondo
