#include "cli/ring_play.h"

#include <algorithm>
#include <deque>

#include "src/error.h"
#include "src/schedule.h"

namespace rondo {
namespace {

using Value = std::optional<std::uint64_t>;

std::size_t index(int number) { return static_cast<std::size_t>(number); }

bool adds(CallKind kind) {
  return kind == CallKind::all_reduce || kind == CallKind::reduce_scatter || kind == CallKind::reduce;
}

bool one_chunk(CallKind kind) { return kind == CallKind::broadcast || kind == CallKind::reduce; }

// What a rank contributes to a chunk.
Value input_of(CallKind kind, int rank, int chunk, int root) {
  if (kind == CallKind::all_gather && rank != chunk) return std::nullopt;
  if (kind == CallKind::broadcast && rank != root) return std::nullopt;
  std::uint64_t place = 1;
  for (int r = 0; r < rank; ++r) place *= 10;
  return static_cast<std::uint64_t>(chunk + 1) * place;
}

bool gets_result(CallKind kind, int rank, int chunk, int root) {
  if (kind == CallKind::reduce_scatter) return rank == chunk;
  if (kind == CallKind::reduce) return rank == root;
  return true;
}

std::vector<Step> schedule_of(CallKind kind, int rank, int size, int root) {
  switch (kind) {
    case CallKind::all_reduce:
      return ring_all_reduce(rank, size);
    case CallKind::all_gather:
      return ring_all_gather(rank, size);
    case CallKind::reduce_scatter:
      return ring_reduce_scatter(rank, size);
    case CallKind::broadcast:
      return ring_broadcast(rank, size, root);
    case CallKind::reduce:
      return ring_reduce(rank, size, root);
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      break;
  }
  fail(ErrorKind::internal, "{} has no ring", name_of(kind));
}

class Player {
 public:
  Player(CallKind kind, int ranks, int root)
      : kind_(kind), play_{ranks, one_chunk(kind) ? 1 : ranks, root, {}, {}, false} {
    Frame start;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& row = start.holds.emplace_back();
      auto& results = play_.expected.emplace_back();
      for (int chunk = 0; chunk < play_.chunks; ++chunk) {
        row.push_back({input_of(kind, rank, chunk, root), false, !adds(kind) || ranks == 1});
        results.push_back(gets_result(kind, rank, chunk, root) ? result(chunk) : std::nullopt);
      }
    }
    play_.frames.push_back(std::move(start));
  }

  // A rank takes one step of its schedule in each frame, once what it waits for was sent in an earlier one.
  Play ring() {
    std::vector<std::deque<Step>> todo;
    for (int rank = 0; rank < play_.ranks; ++rank) {
      const auto steps = schedule_of(kind_, rank, play_.ranks, play_.root);
      todo.emplace_back(steps.begin(), steps.end());
    }
    std::vector<std::deque<Transfer>> wires(todo.size());  // into each rank
    const auto all_done = [&] {
      return std::all_of(todo.begin(), todo.end(), [](const auto& t) { return t.empty(); });
    };
    for (bool first = true; !all_done(); first = false) {
      std::vector<Transfer> sent;
      if (!first) next_frame();
      for (int rank = 0; rank < play_.ranks; ++rank) {
        auto& steps = todo[index(rank)];
        auto& wire = wires[index(rank)];
        if (steps.empty() || (steps.front().receive && wire.empty())) continue;
        take(rank, steps.front(), wire, sent);
        steps.pop_front();
      }
      for (const Transfer& transfer : sent) wires[index(transfer.to)].push_back(transfer);
    }
    return finish();
  }

  // Everybody sends each rank the chunk that is its to add up, and then its result to all who want it.
  Play direct() {
    const int ranks = play_.ranks;
    if (ranks > 1 && adds(kind_)) {
      next_frame();
      for (int owner = 0; owner < ranks; ++owner)
        if (kind_ != CallKind::reduce || owner == play_.root)
          add_up_at(owner, kind_ == CallKind::reduce ? 0 : owner);
    }
    if (ranks > 1 &&
        (kind_ == CallKind::all_reduce || kind_ == CallKind::all_gather || kind_ == CallKind::broadcast)) {
      next_frame();
      for (int owner = 0; owner < ranks; ++owner)
        if (kind_ != CallKind::broadcast || owner == play_.root)
          spread(owner, kind_ == CallKind::broadcast ? 0 : owner);
    }
    return finish();
  }

 private:
  Value result(int chunk) const {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < play_.ranks; ++rank)
      sum += input_of(kind_, rank, chunk, play_.root).value_or(0);
    return sum;
  }

  void next_frame() {
    Frame frame{{}, play_.frames.back().holds};
    for (auto& row : frame.holds)
      for (HeldChunk& chunk : row) chunk.arrived = false;
    play_.frames.push_back(std::move(frame));
  }

  HeldChunk& held(int rank, int chunk) { return play_.frames.back().holds[index(rank)][index(chunk)]; }

  void take(int rank, const Step& step, std::deque<Transfer>& wire, std::vector<Transfer>& sent) {
    HeldChunk& mine = held(rank, step.chunk);
    if (step.receive) {
      const Transfer came = wire.front();
      wire.pop_front();
      if (came.chunk != step.chunk) fail(ErrorKind::internal, "the ring's schedules do not fit together");
      play_.frames.back().transfers.push_back(came);
      mine = {came.value + (step.reduce ? mine.value.value_or(0) : 0), true, step.store};
    }
    if (!step.receive && step.store) mine.whole = true;
    if (step.send) sent.push_back({rank, (rank + 1) % play_.ranks, step.chunk, *mine.value});
  }

  void add_up_at(int owner, int chunk) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < play_.ranks; ++rank) {
      const std::uint64_t value = *play_.frames.front().holds[index(rank)][index(chunk)].value;
      if (rank != owner) play_.frames.back().transfers.push_back({rank, owner, chunk, value});
      sum += value;
    }
    held(owner, chunk) = {sum, true, true};
  }

  void spread(int owner, int chunk) {
    for (int rank = 0; rank < play_.ranks; ++rank) {
      if (rank == owner) continue;
      const std::uint64_t value = *held(owner, chunk).value;
      play_.frames.back().transfers.push_back({owner, rank, chunk, value});
      held(rank, chunk) = {value, true, true};
    }
  }

  Play finish() {
    play_.correct = true;
    for (int rank = 0; rank < play_.ranks; ++rank)
      for (int chunk = 0; chunk < play_.chunks; ++chunk) {
        const Value& wanted = play_.expected[index(rank)][index(chunk)];
        const HeldChunk& has = held(rank, chunk);
        if (wanted && (!has.whole || has.value != wanted)) play_.correct = false;
      }
    return std::move(play_);
  }

  CallKind kind_;
  Play play_;
};

}  // namespace

Play play(CallKind kind, Algorithm algorithm, int ranks, int root) {
  Player player(kind, ranks, root);
  return algorithm == Algorithm::ring ? player.ring() : player.direct();
}

}  // namespace rondo
