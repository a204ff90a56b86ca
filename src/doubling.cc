// All-reduce, all-gather and reduce-scatter by recursive doubling, for small calls: in each round two ranks
// exchange all inputs that they have, of a reduce-scatter those parts that the other is to have or to pass
// on. Nothing is added up on the way: at the end a rank has all that its result is made of, and adds it up in
// the order of the ranks, rounding once. As many bytes as one shot, and as many messages as rounds.
//
// Where there are several ranks on a host, or the hosts are no power of two, one rank speaks for several: it
// collects their inputs before the first round, and gives them their results after the last.
#include <array>
#include <utility>

#include "src/doubling_schedule.h"
#include "src/hosts.h"
#include "src/reduce_extents.h"
#include "src/rounds.h"

namespace rondo {
namespace {

class Doubling : public Rounds {
 public:
  Doubling(const Call& call, const Place& place, const Hosts& hosts)
      : Rounds(place),
        call_(call),
        all_bytes_(call.all_bytes()),
        groups_(doubling_groups(hosts.parties())),
        group_(group_of(groups_, place.rank)) {
    if (gathers()) {
      copy_extents(chunk(call.input, place.rank), chunk(call.output, place.rank));
    } else if (speaks()) {
      const bool serves = call.kind == CallKind::reduce_scatter && own_group().size() > 1;
      room_.resize((static_cast<std::size_t>(place.size) + (serves ? 1 : 0)) * all_bytes_);
      copy_extents(joined(call.input), input_of(place.rank));
    }
  }

 private:
  bool begin_round() override {
    if (distance_ == 0) {
      speaks() ? collect() : hand_in();
      distance_ = 1;
    } else if (speaks() && distance_ < static_cast<int>(groups_.size())) {
      exchange();
      distance_ *= 2;
    } else {
      if (!speaks() || std::exchange(complete_, true)) return false;
      complete();
    }
    return true;
  }

  // The result cannot come before all of the input has left: both may be the same memory.
  void hand_in() {
    send(own_group().front(), gathers() ? chunk(call_.input, place().rank) : joined(call_.input));
    receive(own_group().front(), result_of(place().rank));
  }

  void collect() {
    for_each_member([&](int member) { receive(member, input_of(member)); });
  }

  void exchange() {
    const int other = group_ ^ distance_, peer = groups_[static_cast<std::size_t>(other)].front();
    send(peer, parts(held_before(groups_, group_, distance_), served_after(groups_, other, distance_)));
    receive(peer, parts(held_before(groups_, other, distance_), served_after(groups_, group_, distance_)));
  }

  void complete() {
    if (call_.kind == CallKind::all_reduce) reduce(0, all_bytes_, joined(call_.output));
    if (call_.kind == CallKind::reduce_scatter)
      for (const int rank : own_group()) reduce(offset(rank), bytes_of(rank), result_of(rank));
    for_each_member([&](int member) { send(member, result_of(member)); });
  }

  void reduce(std::size_t at, std::size_t bytes, const Extents& result) {
    std::vector<Extents> sources;
    for (int rank = 0; rank < place().size; ++rank) sources.push_back(slice(input_of(rank), at, bytes));
    reduce_extents(reduction_of(call_, place().size), sources, FirstSource::input, Result::complete, result);
  }

  // Of the inputs of `sources`, what `readers` are to have.
  Extents parts(const std::vector<int>& sources, const std::vector<int>& readers) {
    Extents all;
    for (const int source : sources) {
      if (call_.kind != CallKind::reduce_scatter) {
        append(all, input_of(source));
        continue;
      }
      for (const int reader : readers) append(all, slice(input_of(source), offset(reader), bytes_of(reader)));
    }
    return all;
  }

  // Where a rank's input stands here: of an all-gather its chunk, in the output.
  Extents input_of(int rank) { return gathers() ? chunk(call_.output, rank) : Extents{row(rank)}; }

  // What a rank of this group gets in the end.
  Extents result_of(int rank) {
    if (call_.kind == CallKind::all_reduce) return joined(call_.output);
    if (call_.kind == CallKind::reduce_scatter)
      return rank == place().rank ? chunk(call_.output, rank)
                                  : slice(std::array{row(place().size)}, offset(rank), bytes_of(rank));
    Extents others;
    for (int other = 0; other < place().size; ++other)
      if (other != rank) append(others, chunk(call_.output, other));
    return others;
  }

  // Room for the inputs of all ranks, and behind them, in a reduce-scatter, for the results of this group.
  Extent row(int number) {
    return {room_.data() + static_cast<std::size_t>(number) * all_bytes_, all_bytes_};
  }

  template <typename Visit>
  void for_each_member(Visit visit) const {
    for (const int rank : own_group())
      if (rank != place().rank) visit(rank);
  }

  bool gathers() const { return call_.kind == CallKind::all_gather; }
  bool speaks() const { return own_group().front() == place().rank; }
  const std::vector<int>& own_group() const { return groups_[static_cast<std::size_t>(group_)]; }
  std::size_t offset(int rank) const { return call_.bytes_before(static_cast<std::size_t>(rank)); }
  std::size_t bytes_of(int rank) const { return call_.chunk_bytes[static_cast<std::size_t>(rank)]; }
  static const Extents& chunk(const std::vector<Extents>& chunks, int rank) {
    return chunks[static_cast<std::size_t>(rank)];
  }

  const Call& call_;
  std::size_t all_bytes_;
  std::vector<std::vector<int>> groups_;
  int group_;
  std::vector<std::byte> room_;
  int distance_ = 0;  // of the next round; 0: the inputs of the group first
  bool complete_ = false;
};

}  // namespace

std::unique_ptr<Collective> make_doubling(const Call& call, const Place& place, const Hosts& hosts) {
  return std::make_unique<Doubling>(call, place, hosts);
}

}  // namespace rondo
