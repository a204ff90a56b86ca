// Runs a ring schedule. Chunks are cut into slices, and the schedule is run slice by slice: while one slice
// is reduced here the next is on its way, and a partial result never takes more room than a slice.
//
// Schedules know positions in the ring. Ranks stand there by number, or host after host.
#include <algorithm>
#include <array>

#include "src/collective.h"
#include "src/reduce_extents.h"
#include "src/schedule.h"

namespace rondo {
namespace {

std::vector<Step> by_position(const Call& call, const Place& place) {
  const int position = place.position(place.rank), root = place.position(call.root);
  switch (call.kind) {
    case CallKind::all_reduce:
      return ring_all_reduce(position, place.size);
    case CallKind::all_gather:
      return ring_all_gather(position, place.size);
    case CallKind::reduce_scatter:
      return ring_reduce_scatter(position, place.size);
    case CallKind::broadcast:
      return ring_broadcast(position, place.size, root);
    case CallKind::reduce:
      return ring_reduce(position, place.size, root);
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      break;
  }
  return {};
}

std::vector<Step> schedule_for(const Call& call, const Place& place) {
  std::vector<Step> steps = by_position(call, place);
  if (call.chunk_bytes.size() > 1)
    for (Step& step : steps) step.chunk = place.at(step.chunk);
  return steps;
}

class Ring : public Collective {
 public:
  Ring(const Call& call, const Place& place)
      : call_(call),
        place_(place),
        steps_(schedule_for(call, place)),
        reduction_(reduction_of(call, place.size)) {
    const std::size_t longest = call.most_bytes();
    slices_ = (longest + place.slice_bytes - 1) / place.slice_bytes;
    if (std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.reduce; })) {
      const std::size_t room = std::min(longest, place.slice_bytes);
      incoming_.resize(room);
      for (Partial& partial : partials_) partial.bytes.resize(room);
    }
  }

  bool step() override {
    for (; slice_ < slices_; ++slice_, step_ = 0)
      for (; step_ < steps_.size(); ++step_)
        if (!take(steps_[step_])) return false;
    return place_.transport.done(last_send_);
  }

 private:
  // A partial result on its way to the right. Two take turns: one travels while the next is made.
  struct Partial {
    std::vector<std::byte> bytes;
    Ticket sent;
  };

  // One step with the current slice of its chunk. False: not yet; it is called again.
  bool take(const Step& step) {
    const std::size_t offset = slice_ * place_.slice_bytes;
    const auto chunk = static_cast<std::size_t>(step.chunk);
    if (offset >= call_.chunk_bytes[chunk]) return true;
    const std::size_t bytes = std::min(place_.slice_bytes, call_.chunk_bytes[chunk] - offset);

    Partial& partial = partials_[turn_];
    const bool makes_partial = step.reduce && !step.store;
    const Extents target = step.store      ? slice(call_.output[chunk], offset, bytes)
                           : makes_partial ? Extents{{partial.bytes.data(), bytes}}
                                           : slice(call_.input[chunk], offset, bytes);
    if (step.receive && !received(step.reduce ? Extents{{incoming_.data(), bytes}} : target)) return false;
    if (makes_partial && !place_.transport.done(partial.sent)) return false;
    if (step.reduce) {
      const Extents own = slice(call_.input[chunk], offset, bytes);
      reduce_into(step, own, target, bytes);
    } else if (!step.receive && step.store) {
      copy_extents(slice(call_.input[chunk], offset, bytes), target);
    }
    if (step.send) {
      last_send_ =
          place_.transport.post_send(place_.right(), Channel::collective, target, ByteClass::payload);
      place_.transport.progress();
    }
    if (makes_partial) {
      partial.sent = last_send_;
      turn_ = 1 - turn_;
    }
    receive_posted_ = false;
    return true;
  }

  bool received(const Extents& where) {
    if (!receive_posted_) {
      receive_ = place_.transport.post_receive(place_.left(), Channel::collective, where);
      receive_posted_ = true;
      place_.transport.progress();
    }
    return place_.transport.done(receive_);
  }

  void reduce_into(const Step& step, const Extents& own, const Extents& target, std::size_t bytes) {
    const Result result = step.store ? Result::complete : Result::partial;
    if (!step.receive) return reduce_extents(reduction_, {own}, FirstSource::input, result, target);
    // What comes from the chunk's first rank is that rank's bare input.
    const FirstSource first =
        &step == &steps_[first_receive()] && bare_first() ? FirstSource::input : FirstSource::partial;
    reduce_extents(reduction_, {Extents{{incoming_.data(), bytes}}, own}, first, result, target);
  }

  std::size_t first_receive() const {
    std::size_t index = 0;
    while (!steps_[index].receive) ++index;
    return index;
  }
  // In the chain of a reduce only the second rank receives a bare input.
  bool bare_first() const {
    return call_.kind != CallKind::reduce ||
           place_.position(place_.left()) == (place_.position(call_.root) + 1) % place_.size;
  }

  const Call& call_;
  Place place_;
  std::vector<Step> steps_;
  Reduction reduction_;
  std::size_t slices_ = 0, slice_ = 0, step_ = 0;
  std::vector<std::byte> incoming_;
  std::array<Partial, 2> partials_;
  std::size_t turn_ = 0;
  bool receive_posted_ = false;
  Ticket receive_, last_send_;
};

}  // namespace

std::unique_ptr<Collective> make_ring(const Call& call, const Place& place) {
  return std::make_unique<Ring>(call, place);
}

}  // namespace rondo
