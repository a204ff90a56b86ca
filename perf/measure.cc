#include "perf/measure.h"

#include <algorithm>
#include <numeric>

namespace rondo {
namespace {

// In which the calls of two callees take turns.
constexpr int most_rounds = 10;

Sizes root_sizes(const Collective& collective, const Case& which, int ranks, int root) {
  return collective.sizes(place_of(which, root, ranks, root));
}

double slowest(Communicator& communicator, double seconds) {
  communicator.all_reduce(std::span(&seconds, 1), max);
  return seconds;
}

// Of one callee: the times of its iterations in each round.
using Series = std::vector<std::vector<double>>;

// Of the slowest rank, by iteration.
void take_slowest(Communicator& communicator, Series& series) {
  for (std::vector<double>& round : series) communicator.all_reduce(round, max);
}

// Of an even number the mean of the two in the middle: where the order of turns tells, one of the two alone
// would take sides.
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Times times_of(double first, const Series& series) {
  std::vector<double> seconds;
  for (const auto& round : series) seconds.insert(seconds.end(), round.begin(), round.end());
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {first, seconds[count / 2], seconds[(count - 1) * 99 / 100], seconds.front(),
          sum / static_cast<double>(count)};
}

double ratio_of(const Series& other, const Series& own) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < own.size(); ++round)
    ratios.push_back(median(other[round]) / median(own[round]));
  return median(std::move(ratios));
}

// What the ledger saw of the rank that sent most.
double most_sent(Communicator& communicator) {
  const std::vector<std::uint64_t> matrix = communicator.ledger_matrix();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::uint64_t most = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(from * ranks);
    most = std::max(most, std::accumulate(row, row + static_cast<std::ptrdiff_t>(ranks), std::uint64_t{0}));
  }
  return static_cast<double>(most);
}

std::vector<double> timed_round(Communicator& communicator, Bench& bench, std::size_t callee, int iterations,
                                const PerfOptions& options) {
  std::vector<double> seconds(static_cast<std::size_t>(iterations));
  for (double& one : seconds) {
    if (!options.clean) {
      bench.touch();
      communicator.barrier();
    }
    one = bench.run(callee, options.calls);
  }
  return seconds;
}

// By callee. The ledger has the timed calls of Rondo afterwards, and no others.
std::vector<Series> timed_iterations(Communicator& communicator, Bench& bench, std::size_t callees,
                                     int iterations, const PerfOptions& options) {
  std::vector<Series> all(callees);
  for (std::size_t callee = 0; callee < callees; ++callee)
    for (int i = 0; i < options.warmup; ++i) bench.run(callee, 1);
  communicator.barrier();
  communicator.ledger_reset();
  const int rounds = callees == 1 ? 1 : std::min(iterations, most_rounds);
  for (int round = 0; round < rounds; ++round) {
    const int some = iterations / rounds + (round < iterations % rounds ? 1 : 0);
    for (std::size_t turn = 0; turn < callees; ++turn) {
      const std::size_t which = round % 2 == 0 ? turn : callees - 1 - turn;
      if (rounds > 1) communicator.barrier();
      all[which].push_back(timed_round(communicator, bench, which, some, options));
    }
  }
  return all;
}

// Returns the elements that were wrong on all ranks, in all checks. The first call's time goes to `first`.
std::optional<std::uint64_t> check_results(Communicator& communicator, Bench& bench, std::size_t callee,
                                           int checks, double& first) {
  std::uint64_t wrong = 0;
  for (int i = 0; i < std::max(checks, 1); ++i) {
    bench.fill();
    communicator.barrier();
    const double seconds = bench.run(callee, 1);
    if (i == 0) first = seconds;
    if (checks > 0) wrong += bench.count_wrong();
  }
  communicator.all_reduce(std::span(&wrong, 1));
  bench.fill();
  return checks > 0 ? std::optional(wrong) : std::nullopt;
}

}  // namespace

std::uint64_t bytes_of(const Collective& collective, const Case& which, int ranks, int root) {
  const Sizes sizes = root_sizes(collective, which, ranks, root);
  return std::max(sizes.send, sizes.receive) * size_of(which.type);
}

std::size_t count_of(const Collective& collective, const Case& which, int ranks, int root) {
  return root_sizes(collective, which, ranks, root).count;
}

std::optional<Measured> measure(Communicator& communicator, const std::vector<Callee>& callees,
                                const Collective& collective, const Case& which, const PerfOptions& options) {
  if (which.in_place && !root_sizes(collective, which, communicator.size(), options.root).in_place)
    return std::nullopt;
  Bench bench(communicator, callees, collective, which, options);
  std::vector<double> firsts(callees.size());
  std::vector<CalleeMeasured> each(callees.size());
  for (std::size_t i = 0; i < callees.size(); ++i)
    each[i].wrong = check_results(communicator, bench, i, options.checks, firsts[i]);
  Measured measured{};
  measured.iterations = iterations_for(options, which.bytes);
  std::vector<Series> series =
      timed_iterations(communicator, bench, callees.size(), measured.iterations, options);
  measured.sent = most_sent(communicator) / (static_cast<double>(measured.iterations) * options.calls);
  for (std::size_t i = 0; i < callees.size(); ++i) {
    take_slowest(communicator, series[i]);
    each[i].times = times_of(slowest(communicator, firsts[i]), series[i]);
  }
  static_cast<CalleeMeasured&>(measured) = each[0];
  if (callees.size() > 1) measured.other = Measured::Other{each[1], ratio_of(series[1], series[0])};
  return measured;
}

}  // namespace rondo
