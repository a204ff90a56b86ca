// What ends calls and communicators before their time: failures that ranks tell one another, deadlines,
// deaths.
#include <algorithm>
#include <cstring>

#include "src/communicator.h"
#include "src/log.h"
#include "src/mismatch.h"
#include "src/moving.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

// The roll is called when so much of a call's time is left, or half of it.
constexpr std::chrono::milliseconds roll_time = 5s;

}  // namespace

// Has this or another rank ended the communicator?
bool Communicator::failure_told() {
  if (error_) return true;
  const Failure& failure = membership_.segment->failure();
  // Acquires the text.
  if (failure.state.load(std::memory_order_acquire) != Failure::told) return false;
  error_ = Error(static_cast<ErrorKind>(failure.kind), fmt::format("{}: {}", prefix(), failure.text));
  return true;
}

bool Communicator::broken_off() {
  if (!failure_told()) return false;
  fail_pending(*error_);
  return true;
}

void Communicator::break_off(const Error& error, std::string call) {
  // Who told us of a failure may have ended since: that is not the cause.
  if (broken_off()) return;
  if (!pending_.empty()) call = pending_.front()->call.text();
  const Error named(error.kind(), call.empty() ? fmt::format("{}: {}", prefix(), error.what())
                                               : fmt::format("{}, {}: {}", prefix(), call, error.what()));
  error_ = named;
  tell_failure(named);
  fail_pending(named);
}

void Communicator::fail_pending(const Error& error) {
  if (membership_.network)
    membership_.network->abandon();
  else if (!wait_for_moving(*membership_.segment, rank_, membership_.peers))
    logger().warn("{}: a peer may still store to this rank's buffers", prefix());
  while (!pending_.empty()) {
    const std::shared_ptr<PendingCall> head = pending_.front();
    end(*head, error);
  }
}

void Communicator::tell_failure(const Error& error) {
  write_failure(rank_, error);
  if (far_) far_->tell_failure(error);
}

// Where the ranks of this host look.
void Communicator::write_failure(int rank, const Error& error) {
  Failure& failure = membership_.segment->failure();
  std::uint32_t none = Failure::none;
  // Sequentially consistent for Moving, also for who comes second and does not wait for the text.
  if (failure.state.compare_exchange_strong(none, Failure::being_written, std::memory_order_seq_cst)) {
    failure.rank = rank;
    failure.kind = static_cast<std::uint32_t>(error.kind());
    std::strncpy(failure.text, error.what(), sizeof failure.text - 1);
    // Releases the text; sequentially consistent for ring().
    failure.state.store(Failure::told, std::memory_order_seq_cst);
  }
  ring_neighbours();
}

void Communicator::abort() {
  need_own_process();
  give_up(Error(ErrorKind::aborted, fmt::format("rank {} aborted the communicator", rank_)), "");
}

void Communicator::give_up(const Error& error, const std::string& call) {
  const Lock lock(mutex_);
  break_off(error, call);
}

void Communicator::check_health() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || pending_.empty()) return;
  const std::shared_ptr<PendingCall> head = pending_.front();
  if (!head->active && !head->on_device) return;
  try {
    if (head->on_device) head->on_device->check();
    if (!head->active) return;
    if (far_ && !head->roll_called &&
        head->deadline.left(roll_time) < std::min(roll_time, head->timeout / 2)) {
      head->roll_called = true;
      far_->call_the_roll();
    }
    if (head->deadline.passed())
      fail(ErrorKind::timeout, "timed out after {} s{}", static_cast<double>(head->timeout.count()) / 1000,
           late_ranks(*head));
    need_live_peers(*head);
  } catch (const Error& error) {
    break_off(error);
  } catch (const std::bad_alloc&) {
    break_off(out_of_memory());
  }
}

// Of a rank of this host, to tell whether it has made call number `sequence`. Between hosts slots say
// nothing: ranks do not meet, so that who is ahead may have a place that was a neighbour's.
std::uint64_t Communicator::last_call_of(int place, std::uint64_t sequence) const {
  return (far_ ? membership_.segment->rank(place).met : slot_of(place, sequence).sequence)
      .load(std::memory_order_acquire);
}

std::string Communicator::late_ranks(const PendingCall& head) const {
  const std::string silent = far_ ? far_->silent() : "";
  if (head.sequence == 0) return silent;
  std::vector<int> late;
  for (int place = 0; place < local_size_; ++place)
    if (last_call_of(place, head.sequence) < head.sequence) late.push_back(neighbour(place));
  if (far_) {
    const std::vector<int> far = far_->late(head.sequence);
    late.insert(late.end(), far.begin(), far.end());
    std::sort(late.begin(), late.end());
  }
  if (late.empty()) return silent.empty() ? "; all ranks have made this call" : silent;
  return fmt::format("; {} {} not made this call (number {}){}", who(late), late.size() == 1 ? "has" : "have",
                     head.sequence, silent);
}

// Names ranks, with their hosts where there are several.
std::string Communicator::who(const std::vector<int>& ranks) const {
  if (!far_) return list_of_ranks(ranks);
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(membership_.hosts.description(rank));
  return fmt::format("{}", fmt::join(names, ", "));
}

// A peer that ended after its part of the call was done has hurt nobody: so look whether it lives before what
// it has done.
void Communicator::need_live_peers(const PendingCall& head) const {
  if (far_) far_->need_reachable();
  for (int place = 0; place < local_size_; ++place) {
    const int peer = neighbour(place);
    const auto& process = membership_.peers[static_cast<std::size_t>(peer)];
    const bool died = process && !process->alive();
    const bool left = membership_.segment->rank(place).left.load(std::memory_order_acquire) != 0;
    if (!(died || left) || !waits_for(head, place)) continue;
    transport_->progress();
    if (head.collective && (step_collective(head) || !waits_for(head, place))) continue;
    if (died)
      fail(ErrorKind::remote, "{} (process {}) has died", who({peer}),
           membership_.processes[static_cast<std::size_t>(peer)].pid);
    fail(ErrorKind::remote, "{} has destroyed the communicator", who({peer}));
  }
}

// For a rank of this host.
bool Communicator::waits_for(const PendingCall& head, int place) const {
  if (head.sequence == 0) return !head.collective || head.collective->waits_for(neighbour(place));
  return membership_.segment->rank(place).completed.load(std::memory_order_acquire) < head.sequence;
}

}  // namespace rondo
