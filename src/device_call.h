// A call on a device's stream. Nobody waits for it but the stream. It goes one of two ways:
//
// On windows, if the buffers of all ranks lie in devices' memory: once all streams have come to the call, the
// ranks tell one another where their buffers are, map them, and each rank's stream does a job
// (kernels/device/job.h) that reads from and stores to all ranks' buffers, of what is that rank's part. What
// a stream is to do must stand on it beforehand, since a driver may refuse to take more while the program
// waits there: so the job is put on the stream when the call is made, and written when the ranks have agreed.
//
// By host staging: the stream copies the inputs to host memory and the outputs back, and the engine runs the
// call in between as any other. Where it is known when the call is made that it cannot go on windows, copies
// stand on the stream; where the ranks find it out together, jobs are the copies.
//
// What CUDA guarantees, and this rests on: a function of the host runs once all that stands before it on its
// stream is done, and then what kernels have stored is there for whoever is told, on any device that has the
// memory mapped; and work behind a wait at a word begins after the word was stored, and sees what the host
// had written before.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/call.h"
#include "src/device.h"
#include "src/device_health.h"
#include "src/device_job.h"
#include "src/error.h"
#include "src/peer_allocations.h"
#include "src/pinned_blocks.h"
#include "src/traffic.h"

namespace rondo {

class Communicator;
struct PendingCall;

// Safe from any thread, but as said.
class DeviceCall : public std::enable_shared_from_this<DeviceCall> {
 public:
  // Points `call` to host memory instead of the device's, unless it may go on windows. Throws invalid_usage
  // where the stream is recorded and not run.
  // `context`: that of Device::context_of(stream) where the call was made.
  DeviceCall(Device& device, DeviceStream stream, DeviceContext context, Communicator& communicator,
             Call& call);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Why the host carries the call out, as far as is known when it is made; empty: it may go on windows.
  const std::string& why_staged() const { return why_staged_; }
  const CopiedBytes& copied() const { return copied_; }

  // The caller's part, in this order. What goes wrong is thrown, and ends the communicator: the call may be
  // under way, or done, and its outputs will not come.
  void put_arrival();
  void put_move();
  void put_departure();

  // ---- the engine's, one thread at a time ----

  // Whether the stream has come to the call: its inputs are whole, and in host memory if that is known to be
  // the way.
  bool has_come() const;
  // Throws when the device has failed: then what is waited for never comes. Asks nobody.
  void check() const;
  // The call is done: the stream may go on.
  void end(bool well);

  // What peers are told of the call's buffers; null: the host carries it out.
  const CallDeviceBuffers* buffers() const { return buffers_ ? &*buffers_ : nullptr; }

  // Maps all ranks' buffers; of what each rank has told, by rank. `self` is this rank.
  struct Told {
    ProcessIdentity process;
    CallDeviceBuffers buffers;
  };
  void map(std::shared_ptr<DeviceMemories> memories, std::vector<Told> told, int self);
  bool is_mapped_or_not() const;
  Mapped mapped() const { return mapped_; }
  // Where it never can be.
  const std::string& why_not_mapped() const { return why_not_mapped_; }

  // Lets the stream do this rank's part. `mark` lives until it is done.
  void move(const Call& call, int rank, std::shared_ptr<void> mark);
  bool has_moved() const;
  // Bytes that the blocks have moved, by group of pieces.
  std::vector<std::uint64_t> moved_by_group() const;

  // Instead: copies what the call needs to the host. It is pointed there when this returns true; until then
  // it is to be called again.
  bool fetch(Call& call);

 private:
  struct Copy {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
  };
  using Copies = std::vector<Copy>;

  // Where all ranks' buffers are for this rank's job, and what is held open for it.
  struct Mapping {
    std::vector<PeerBuffersOnDevice> peers;
    std::vector<std::shared_ptr<const OpenAllocation>> held;
  };
  static std::optional<Mapping> mapping_of(PeerAllocations& memories, const std::vector<Told>& told, int self,
                                           bool may_ask);

  struct Staged;
  enum class To { host, device };

  std::string plan_windows(Communicator& communicator, const Call& call);
  std::span<device::Piece> pieces() const;
  void let_move();
  void plan_staging(Call& call);
  void point_to(const Staged& staged, std::byte* memory);
  static void add(Copies& copies, const Copy& copy);
  void take_staging_block(std::size_t bytes);
  void write_copies(const Copies& copies, To to, device::Job& job, std::size_t offset) const;
  template <typename Put>
  void put(Put put);
  void give_up(const Error& error) const;
  void leave_block(std::unique_ptr<PinnedBlock> block, bool used) const;

  Device& device_;
  DeviceStream stream_, companion_;
  DeviceContext context_;
  std::shared_ptr<const DeviceHealth> health_;
  std::weak_ptr<Communicator> communicator_;
  std::function<void()> wake_;  // this rank, wherever it waits for the call
  std::optional<CallAtWork> at_work_;
  std::string why_staged_;
  CopiedBytes copied_;
  // With the word that the stream waits at; and what is copied, or the jobs.
  std::unique_ptr<PinnedBlock> block_;
  std::uint32_t moves_ = 0, done_ = 0;  // the word, when the stream is to move, and when the call is done
  Copies down_, up_;

  // On windows.
  std::optional<CallDeviceBuffers> buffers_;
  JobMemory move_, back_;
  std::uint64_t groups_ = 1;
  int blocks_ = 1;              // of the job that moves
  std::shared_ptr<void> mark_;  // the engine's until the stream may move, the stream's from then on
  bool moves_now_ = false;

  // What an errand brings: the errand's until errand_over_, under the mutex with ended_.
  std::mutex mutex_;
  bool ended_ = false;
  Mapping mapping_;
  Mapped mapped_ = Mapped::never;
  std::string why_not_mapped_;
  std::unique_ptr<PinnedBlock> staging_;
  std::byte* staging_on_device_ = nullptr;
  std::optional<Error> refused_;
  std::atomic<bool> errand_over_{false};
  enum class Fetching { no, taking_memory, copying };
  Fetching fetching_ = Fetching::no;

  std::atomic<bool> come_{false}, moved_{false};
  enum class StreamState { not_begun, at_work, done };
  std::atomic<StreamState> stream_state_{StreamState::not_begun};
  std::atomic<bool> well_{false};
};

// Whether any of the call's buffers lies in the device's memory.
bool touches(const Device& device, const Call& call);

// Queues the call, and its arrival on the stream. put_move() and put_departure() are to follow: where several
// calls stand on one stream, when all of them have arrived, and then when all of them may move, since each
// may wait for others'.
std::shared_ptr<DeviceCall> begin_on(Device& device, DeviceStream stream, DeviceContext context,
                                     Communicator& communicator, Call call);

}  // namespace rondo
