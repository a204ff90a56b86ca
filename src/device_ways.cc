// Calls whose data may lie on devices: how the ranks find out whether all of them do, and whether each rank's
// device can reach all of them. Each meeting counts as a call, so that what holds for calls holds for it:
// descriptors are compared, deadlines pass, deaths show. Where one rank cannot, all go on as if a call on the
// host came next: those that are on the host make theirs once more.
#include <fmt/ranges.h>

#include "kernels/device/reduce.h"
#include "src/communicator.h"
#include "src/layouts.h"
#include "src/log.h"
#include "src/mismatch.h"
#include "src/moving.h"

namespace rondo {
namespace {

using Where = PendingCall::Where;

// This rank's part, done by its stream; then all meet.
class OnDevices : public Collective {
 public:
  OnDevices(const Call& call, const Place& place, DeviceCall& on_device, std::shared_ptr<Segment> segment,
            MeetAgain meet)
      : call_(call),
        place_(place),
        on_device_(on_device),
        segment_(std::move(segment)),
        meet_(std::move(meet)) {}

  bool step() override {
    if (!begun_ && !begin()) return false;
    if (!counted_ && !on_device_.has_moved()) return false;
    if (!std::exchange(counted_, true))
      count_windows_job(call_.kind, call_.root, place_.rank, on_device_.moved_by_group(),
                        place_.transport.traffic());
    return meet_();
  }

 private:
  // In this rank's lines until the stream is through, also when the communicator is no more.
  struct Mark {
    std::shared_ptr<Segment> segment;
    Moving moving;
    Mark(std::shared_ptr<Segment> of, int rank) : segment(std::move(of)), moving(*segment, rank) {}
  };

  // False: the communicator has failed.
  bool begin() {
    auto mark = std::make_shared<Mark>(segment_, place_.rank);
    if (!mark->moving.allowed()) return false;
    begun_ = true;
    on_device_.move(call_, place_.rank, std::move(mark));
    return true;
  }

  const Call& call_;
  Place place_;
  DeviceCall& on_device_;
  std::shared_ptr<Segment> segment_;
  MeetAgain meet_;
  bool begun_ = false, counted_ = false;
};

}  // namespace

std::string why_not_on_devices(const Call& call, int ranks, const Settings& settings) {
  if (settings.device_staging) return "RONDO_DEVICE_STAGING=1";
  if (ranks > device::most_ranks) return fmt::format("{} ranks are more than {}", ranks, device::most_ranks);
  if (settings.algorithm != Algorithm::automatic && settings.algorithm != Algorithm::direct)
    return fmt::format("RONDO_ALGO={}", name_of(settings.algorithm));
  if (!can_use_windows(call))
    return fmt::format("calls like {} go no other way{}", name_of(call.kind),
                       call.members > 1 ? " in a group" : "");
  return "";
}

std::string Communicator::why_not_on_devices(const Call& call) const {
  if (far_) return "the ranks are on several hosts";
  if (devices_refused_) return "a rank could not map another's device memory";
  return rondo::why_not_on_devices(call, size_, options_.settings);
}

std::shared_ptr<DeviceMemories> Communicator::device_memories(Device& device) {
  const Lock lock(mutex_);
  if (!device_memories_) device_memories_ = std::make_shared<DeviceMemories>(device);
  return device_memories_;
}

// The caller's peers may free afterwards what was open here. What streams still use stays open: their calls
// hold it.
void Communicator::close_devices() {
  std::shared_ptr<DeviceMemories> memories;
  {
    const Lock lock(mutex_);
    memories = std::exchange(device_memories_, nullptr);
  }
  if (!memories) return;
  memories = nullptr;
  let_go_now(most_wait_for_moving);
}

void Communicator::tell_host_staging(const std::string& why) {
  {
    const std::lock_guard lock(told_mutex_);
    if (!host_staging_told_.insert(why).second) return;
  }
  logger().log(rank_ == 0 ? spdlog::level::warn : spdlog::level::info,
               "{}: calls on device memory go by host staging, copied to the host and back: {}", prefix(),
               why);
}

// Whether this call goes on; with an error, whether it ends.
bool Communicator::has_settled(PendingCall& head) {
  while (true) {
    if (head.where == Where::device_unmapped) {
      if (!head.on_device->is_mapped_or_not()) return false;
      head.where = Where::device_mapped;
      publish_again(head);
    } else if (head.where == Where::device_to_host) {
      if (!head.on_device->fetch(head.call)) return false;
      head.where = Where::host;
      publish_again(head);
    }
    if (far_ ? head.check && !head.check->step() : !have_met(head.sequence)) return false;
    if (!far_ && all_are_on_hosts(head)) return true;
    head.error = mismatch(head);
    if (head.error || far_ || goes_as_it_is(head)) return true;
  }
}

// The usual case: all make the same call, and nobody's data are on a device.
bool Communicator::all_are_on_hosts(const PendingCall& head) const {
  const CallDescriptor& own = slot_of(rank_, head.sequence).descriptor;
  return !own.is_on_device() && alike(head.sequence, own);
}

// The ranks have met and agree on what they call, with some data on devices. Each of them comes to the same
// answer here.
bool Communicator::goes_as_it_is(PendingCall& head) {
  if (head.where == Where::host) {
    publish_again(head);
    return false;
  }
  const std::vector<int> on_host =
      ranks_that([&](int rank) { return !slot_of(rank, head.sequence).descriptor.is_on_device(); });
  const auto told = [&](int rank) -> const CallDevicePlaces& {
    return device_places_at(rank, head.sequence);
  };
  if (head.where == Where::device_mapped) {
    const auto ranks_with = [&](Mapped mapped) {
      return ranks_that([&](int rank) { return told(rank).mapped == mapped; });
    };
    const std::vector<int> never = ranks_with(Mapped::never), not_now = ranks_with(Mapped::not_now);
    if (never.empty() && not_now.empty()) return true;
    if (never.empty()) {
      fall_back(head,
                fmt::format("{} cannot map the others' device memory before it has closed what was freed "
                            "at the same address: calls after this one try again",
                            list_of_ranks(not_now)));
      return false;
    }
    devices_refused_ = true;
    const std::string& reason = head.on_device->why_not_mapped();
    fall_back(head, fmt::format("{} cannot map the others' device memory{}{}", list_of_ranks(never),
                                reason.empty() ? "" : ": ", reason));
  } else if (!on_host.empty()) {
    fall_back(head, fmt::format("{} {} a call that is not all in device memory that others can open",
                                list_of_ranks(on_host), on_host.size() == 1 ? "makes" : "make"));
  } else if (!all_fit(
                 head.call.kind, head.call.root, size_,
                 [&](int rank) -> const CallDeviceBuffers& { return told(rank).buffers; },
                 [](const DeviceBuffer& one, const DeviceBuffer& first) {
                   return one.layout == first.layout;
                 })) {
    fall_back(head, "the pieces of a group lie otherwise in the ranks' memory");
  } else {
    map_devices(head);
  }
  return false;
}

std::vector<int> Communicator::ranks_that(const std::function<bool(int)>& is_so) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (is_so(rank)) ranks.push_back(rank);
  return ranks;
}

void Communicator::fall_back(PendingCall& head, const std::string& why) {
  tell_host_staging(why);
  head.where = Where::device_to_host;
}

void Communicator::map_devices(PendingCall& head) {
  std::vector<DeviceCall::Told> told;
  for (int rank = 0; rank < size_; ++rank)
    told.push_back({membership_.processes[static_cast<std::size_t>(rank)],
                    device_places_at(rank, head.sequence).buffers});
  head.on_device->map(device_memories_, std::move(told), rank_);
  head.where = Where::device_unmapped;
}

CallDevicePlaces& Communicator::device_places_at(int rank, std::uint64_t sequence) const {
  return *reinterpret_cast<CallDevicePlaces*>(slot_of(rank, sequence).few);
}

void Communicator::publish_on_device(PendingCall& head) {
  CallDevicePlaces& places = device_places_at(rank_, head.sequence);
  const bool mapped = head.where == Where::device_mapped;
  if (mapped)
    places.mapped = head.on_device->mapped();
  else
    places.buffers = *head.on_device->buffers();
  slot_of(rank_, head.sequence).descriptor = head.call.descriptor().marked();
  publish_slot(head.sequence, mapped ? sizeof places.mapped : sizeof places.buffers);
}

// The same call counts as the next one.
void Communicator::publish_again(PendingCall& head) {
  transport_->traffic().forget_payload();
  head.ahead = nullptr;
  own_lines().completed.store(head.sequence, std::memory_order_release);
  head.sequence = ++sequence_;
  publish(head);
}

std::unique_ptr<Collective> Communicator::make_on_devices(PendingCall& head) {
  head.algorithm = Algorithm::windows;
  return std::make_unique<OnDevices>(head.call, place_, *head.on_device, membership_.segment,
                                     meet_again(head.sequence));
}

}  // namespace rondo
