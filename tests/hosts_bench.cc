// Times small calls between test hosts, by every algorithm that a setting can force and by what is taken
// without one: the measurements on which the choice between hosts rests (docs/performance.md).
//
//   hosts_bench HOSTS RANKS_A_HOST [COLLECTIVE | BYTES]...
//
// Algorithms take turns, call by call, with barriers between. A call's time is from the last rank's start to
// the last one's end (of a reduce: the root's; a broadcast's root is held back until all others have
// started), by the clock that the hosts of one machine share. Medians, in microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "src/calls.h"
#include "tests/test_hosts.h"

namespace rondo::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int calls = 200, warm_up = 20;
constexpr CallKind all_kinds[] = {CallKind::all_reduce, CallKind::all_gather, CallKind::reduce_scatter,
                                  CallKind::broadcast, CallKind::reduce};

// `bytes`: of the buffer of one rank; of the output of an all-gather, the input of a reduce-scatter.
Call call_of(CallKind kind, const Communicator& comm, std::vector<float>& in, std::vector<float>& out) {
  const Seat seat{comm.rank(), comm.size()};
  const std::size_t all = in.size(), share = all / static_cast<std::size_t>(seat.size);
  switch (kind) {
    case CallKind::all_reduce:
      return all_reduce_call(seat, in.data(), out.data(), all, DataType::f32, {});
    case CallKind::all_gather:
      return all_gather_call(seat, in.data(), out.data(), share, DataType::f32);
    case CallKind::reduce_scatter:
      return reduce_scatter_call(seat, in.data(), out.data(), share, DataType::f32, {});
    case CallKind::broadcast:
      return broadcast_call(seat, in.data(), out.data(), all, DataType::f32, 0);
    case CallKind::reduce:
      return reduce_call(seat, in.data(), out.data(), all, DataType::f32, {}, 0);
    case CallKind::gather:
    case CallKind::scatter:
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::messages:
      break;
  }
  return barrier_call();
}

struct Times {
  std::int64_t start, end;
};

// Of each call, on rank 0: by the times of all ranks.
std::vector<double> latencies(Communicator& comm, CallKind kind, const std::vector<Times>& mine) {
  const Seat seat{comm.rank(), comm.size()};
  std::vector<Times> all(mine.size() * static_cast<std::size_t>(seat.size));
  comm.run(all_gather_call(seat, mine.data(), all.data(), mine.size() * 2, DataType::i64));
  std::vector<double> times;
  for (std::size_t call = 0; call < mine.size(); ++call) {
    std::int64_t start = 0, end = all[call].end;  // rank 0's, the root's
    for (std::size_t at = call; at < all.size(); at += mine.size()) {
      start = std::max(start, all[at].start);
      if (kind != CallKind::reduce) end = std::max(end, all[at].end);
    }
    times.push_back(static_cast<double>(end - start) / 1000);
  }
  return times;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

Times timed(Communicator& comm, Call call) {
  comm.run(barrier_call());
  const Seat seat{comm.rank(), comm.size()};
  std::vector<float> words(static_cast<std::size_t>(seat.size));
  if (call.kind == CallKind::broadcast)
    comm.run(gather_call(seat, words.data() + seat.rank, words.data(), 1, DataType::f32, 0));
  const auto start = Clock::now();
  comm.run(std::move(call));
  return {start.time_since_epoch().count(), Clock::now().time_since_epoch().count()};
}

struct Contender {
  Algorithm algorithm;
  std::shared_ptr<Communicator> communicator;
  std::vector<Times> times;
};

// Nothing: calls of this kind cannot be made to go so.
std::optional<double> measured(const Contender& one, Communicator& world, CallKind kind) {
  if (one.times.empty()) return std::nullopt;
  return median(latencies(world, kind, one.times));
}

void measure(std::vector<Contender>& contenders, Communicator& world, CallKind kind, std::size_t bytes) {
  std::vector<float> in(bytes / sizeof(float), 1), out(in.size());
  for (Contender& one : contenders) one.times.clear();
  for (int number = -warm_up; number < calls; ++number)
    for (Contender& one : contenders) {
      Call call = call_of(kind, *one.communicator, in, out);
      const Algorithm goes = choose_between_hosts(call, one.algorithm, world.hosts());
      if (one.algorithm != Algorithm::automatic && goes != one.algorithm) continue;
      const Times times = timed(*one.communicator, std::move(call));
      if (number >= 0) one.times.push_back(times);
    }
  std::string line = fmt::format("{:<15} {:>7}", name_of(kind), bytes);
  for (const Contender& one : contenders) {
    const auto time = measured(one, world, kind);
    line += fmt::format(" {:>9}", time ? fmt::format("{:.1f}", *time) : "-");
  }
  if (world.rank() == 0) fmt::print("{}\n", line);
  std::fflush(stdout);
}

void measure_all(Communicator& world, const std::vector<CallKind>& kinds,
                 const std::vector<std::size_t>& sizes) {
  std::vector<Contender> contenders;
  std::string head = fmt::format("{:<15} {:>7}", "", "bytes");
  for (const Algorithm algorithm : forcible) {
    CommunicatorOptions options;
    options.settings.algorithm = algorithm;
    contenders.push_back({algorithm, world.split(0, world.rank(), options), {}});
    head += fmt::format(" {:>9}", name_of(algorithm));
  }
  if (world.rank() == 0) fmt::print("{}\n", head);
  for (const CallKind kind : kinds)
    for (const std::size_t bytes : sizes) measure(contenders, world, kind, bytes);
}

}  // namespace
}  // namespace rondo::test

int main(int count, char** arguments) {
  using namespace rondo;
  using namespace rondo::test;
  const auto number = [&](int at) { return at < count ? std::strtoul(arguments[at], nullptr, 10) : 0; };
  std::vector<std::size_t> sizes;
  std::vector<CallKind> kinds;
  bool good = number(1) > 0 && number(2) > 0;
  for (int at = 3; at < count; ++at) {
    const auto* kind = std::find_if(std::begin(all_kinds), std::end(all_kinds),
                                    [&](CallKind one) { return std::string(arguments[at]) == name_of(one); });
    if (kind != std::end(all_kinds))
      kinds.push_back(*kind);
    else if (number(at) > 0)
      sizes.push_back(number(at));
    else
      good = false;
  }
  if (!good || !TestHosts::obstacle().empty()) {
    fmt::print(
        stderr, "{}\n",
        good ? TestHosts::obstacle() : "usage: hosts_bench HOSTS RANKS_A_HOST [COLLECTIVE | BYTES]...");
    return 2;
  }
  if (kinds.empty()) kinds.assign(std::begin(all_kinds), std::end(all_kinds));
  if (sizes.empty()) sizes = {64, 1024, 4096, 16384, 65536};
  const int hosts = static_cast<int>(number(1)), ranks = static_cast<int>(number(2));
  Seating seating;
  for (int rank = 0; rank < hosts * ranks; ++rank) seating.push_back(rank / ranks);
  const TestHosts made(hosts);
  run_on_hosts(
      made, seating, [&](Communicator& world) { measure_all(world, kinds, sizes); }, CommunicatorOptions());
  return 0;
}
