// Direct calls on memory that peers cannot map, through staging areas, round by round. In a round each rank
// copies a slice of every other rank's chunk to its own area (fill), reduces the slices of its own chunk
// straight from all areas, storing the result in its output and in its area (reduce), and copies the others'
// results (gather). An all-gather fills its own chunk and reduces nothing; a reduce-scatter gathers nothing.
// While a round waits for peers the next one is filled. The first is filled before the ranks have met, where
// it can be, and each says so beside its call: so a call of one round needs no meeting for it.
#include <algorithm>
#include <array>

#include "src/caches.h"
#include "src/collective.h"
#include "src/reduce_extents.h"
#include "src/staging.h"

namespace rondo {
namespace {

using Point = Staging::Point;

// The output and the staging area, each stored in its own way.
class SomeTargets {
 public:
  // `target`: one piece.
  void add(const Extents& target, Stores stores) {
    Some& some = stores == Stores::ordinary ? ordinary_ : streaming_;
    some.targets[some.count++] = target.front().data;
  }
  Targets by_stores() const { return {ordinary_.all(), streaming_.all()}; }

 private:
  struct Some {
    std::array<std::byte*, 2> targets{};
    std::size_t count = 0;
    std::span<std::byte* const> all() const { return std::span(targets).first(count); }
  };

  Some ordinary_, streaming_;
};

class Staged : public StagedCall {
 public:
  Staged(const Call& call, const Place& place, Staging& staging)
      : call_(call),
        place_(place),
        staging_(staging),
        reduces_(call.kind != CallKind::all_gather),
        gathers_(call.kind != CallKind::reduce_scatter),
        filled_(staging.rounds()),
        reduced_(filled_),
        finished_(filled_),
        first_(filled_),
        rounds_(staging.rounds_of(call.most_bytes())),
        end_(first_ + rounds_.count),
        output_stores_(output_stores(call.kind, call.all_bytes(), place.size, place.staged_streaming_above)) {
    staging_.reserve();
  }

  bool fill_ahead() override {
    if (first_ == end_ || !staging_.can_fill_ahead()) return false;
    if (reduces_)
      fill_for_peers(first_);
    else
      count_for_all(move(own_input(first_), staged(place_.rank, place_.rank, first_)));
    filled_ = first_ + 1;
    return true;
  }

  void begin(Ahead ahead) override {
    staging_.add_rounds(end_ - first_);
    filled_ = std::max(filled_, first_ + (ahead.own ? 1 : 0));
    reduced_ = first_ + (ahead.reduced ? 1 : 0);
    filled_by_all_ = first_ + (ahead.all ? 1 : 0);
    output_lacks_own_ = filled_ > first_ && !reduces_;
    if (ahead.own && !ahead.all) staging_.reach(Point::filled, first_);
  }

  bool step() override {
    while (finished_ < end_) {
      if (can_fill())
        fill(filled_++);
      else if (can_reduce())
        reduce(reduced_++);
      else if (can_gather())
        gather(finished_++);
      else
        return false;
    }
    return true;
  }

 private:
  // A round takes the place of that two rounds before, which peers must have read. Those of calls before this
  // one they have.
  bool can_fill() const {
    return filled_ < end_ && filled_ < finished_ + 2 &&
           (filled_ < first_ + 2 || staging_.all_reached(Point::finished, filled_ - 2));
  }
  bool can_reduce() const { return reduced_ < filled_ && (!reduces_ || all_have_filled(reduced_)); }
  bool can_gather() const {
    return finished_ < reduced_ && (!gathers_ || (reduces_ ? staging_.all_reached(Point::reduced, finished_)
                                                           : all_have_filled(finished_)));
  }
  bool all_have_filled(std::uint64_t round) const {
    return round < filled_by_all_ || staging_.all_reached(Point::filled, round);
  }

  void fill(std::uint64_t round) {
    if (reduces_)
      fill_for_peers(round);
    else
      fill_own(round);
    staging_.reach(Point::filled, round);
  }

  void fill_for_peers(std::uint64_t round) {
    for_each_peer([&](int peer) {
      count(peer, move(slice_of(call_.input, peer, round), staged(place_.rank, peer, round)));
    });
  }

  Extents own_input(std::uint64_t round) const { return slice_of(call_.input, place_.rank, round); }
  Extents own_output(std::uint64_t round) const { return slice_of(call_.output, place_.rank, round); }

  // In one pass to the area and to the output, where each is in one piece.
  void fill_own(std::uint64_t round) {
    const Extents own = own_input(round);
    const Extents output = own_output(round);
    const Extents area = staged(place_.rank, place_.rank, round);
    if (own.size() == 1 && output.size() == 1) {
      SomeTargets targets;
      targets.add(area, Stores::ordinary);
      if (output.front().data != own.front().data) targets.add(output, output_stores_);
      copy(own.front().data, targets.by_stores(), own.front().bytes);
      count_for_all(own.front().bytes);
    } else {
      count_for_all(move(own, area));
      move(own, output, output_stores_);
    }
  }

  void reduce(std::uint64_t round) {
    if (!reduces_) return;
    std::vector<Extents> sources;
    for (int peer = 0; peer < place_.size; ++peer)
      sources.push_back(peer == place_.rank ? slice_of(call_.input, peer, round)
                                            : staged(peer, place_.rank, round));
    const Extents output = own_output(round);
    const Extents result = gathers_ ? staged(place_.rank, place_.rank, round) : Extents{};
    if (!reduce_in_one_pass(sources, output, result)) {
      reduce_extents(reduction_of(call_, place_.size), sources, FirstSource::input, Result::complete, output);
      copy_extents(output, result);
    }
    if (!gathers_) return;
    count_for_all(total_bytes(output));
    staging_.reach(Point::reduced, round);
  }

  // Where everything is in one piece: both targets are stored as they are computed, each in its own way.
  bool reduce_in_one_pass(const std::vector<Extents>& sources, const Extents& output,
                          const Extents& result) const {
    const auto one_piece = [](const Extents& extents) { return extents.size() == 1; };
    if (!one_piece(output) || !std::all_of(sources.begin(), sources.end(), one_piece)) return false;
    std::vector<const std::byte*> from;
    for (const Extents& source : sources) from.push_back(source.front().data);
    SomeTargets targets;
    targets.add(output, output_stores_);
    if (!result.empty()) targets.add(result, Stores::ordinary);
    rondo::reduce(reduction_of(call_, place_.size), from, FirstSource::input, Result::complete,
                  targets.by_stores(), output.front().bytes / size_of(call_.type));
    return true;
  }

  void gather(std::uint64_t round) {
    if (std::exchange(output_lacks_own_, false)) move(own_input(round), own_output(round), output_stores_);
    if (gathers_)
      for_each_peer([&](int peer) {
        move(staged(peer, peer, round), slice_of(call_.output, peer, round), output_stores_);
      });
    if (round + 2 < end_)
      staging_.reach(Point::finished, round);
    else
      staging_.reach_quietly(Point::finished, round);
  }

  // Begins with the right neighbour, so that no rank is everybody's first.
  template <typename Visit>
  void for_each_peer(Visit visit) const {
    for (int distance = 1; distance < place_.size; ++distance) visit((place_.rank + distance) % place_.size);
  }

  std::size_t offset_of(std::uint64_t round) const { return (round - first_) * rounds_.bytes; }
  std::size_t bytes_of(int chunk, std::uint64_t round) const {
    const std::size_t all = call_.chunk_bytes[static_cast<std::size_t>(chunk)], offset = offset_of(round);
    return offset < all ? std::min(all - offset, rounds_.bytes) : 0;
  }
  Extents slice_of(const std::vector<Extents>& chunks, int chunk, std::uint64_t round) const {
    const std::size_t bytes = bytes_of(chunk, round);
    return bytes == 0 ? Extents{} : slice(chunks[static_cast<std::size_t>(chunk)], offset_of(round), bytes);
  }
  Extents staged(int rank, int chunk, std::uint64_t round) const {
    return {{staging_.slice(rank, chunk, round), bytes_of(chunk, round)}};
  }

  // Returns the bytes moved. What goes to an area is stored ordinarily: a peer reads it from our cache next.
  static std::size_t move(const Extents& from, const Extents& to, Stores stores = Stores::ordinary) {
    if (from.size() != 1 || to.size() != 1) return copy_extents(from, to);
    std::byte* const target = to.front().data;
    if (target != from.front().data)
      copy(from.front().data, Targets(std::span(&target, 1), stores), from.front().bytes);
    return from.front().bytes;
  }

  void count(int peer, std::size_t bytes) {
    place_.transport.traffic().count(ByteClass::payload, peer, bytes);
  }
  void count_for_all(std::size_t bytes) {
    for_each_peer([&](int peer) { count(peer, bytes); });
  }

  const Call& call_;
  Place place_;
  Staging& staging_;
  bool reduces_, gathers_;
  // Rounds are numbered since the communicator began.
  std::uint64_t filled_, reduced_, finished_;
  std::uint64_t filled_by_all_ = 0;  // those that all ranks are known to have filled
  std::uint64_t first_;
  Staging::Rounds rounds_;
  std::uint64_t end_;
  Stores output_stores_;
  bool output_lacks_own_ = false;  // of an all-gather whose first round was filled ahead
};

}  // namespace

std::unique_ptr<StagedCall> make_staged(const Call& call, const Place& place, Staging& staging) {
  return std::make_unique<Staged>(call, place, staging);
}

}  // namespace rondo
