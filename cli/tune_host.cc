#include "cli/tune_host.h"

#include <algorithm>
#include <memory>

#include "cli/cpus.h"
#include "cli/tune_bench.h"
#include "src/caches.h"
#include "src/error.h"

namespace rondo {
namespace {

using Cases = std::vector<TuneCase>;

constexpr std::size_t rounds = 5;
constexpr std::size_t KiB = 1024, MiB = KiB * KiB;
constexpr std::size_t never = std::size_t{1} << 50;  // a threshold that no call passes

constexpr CallKind all_kinds[] = {CallKind::all_reduce, CallKind::all_gather, CallKind::reduce_scatter};
constexpr CallKind reducing_kinds[] = {CallKind::all_reduce, CallKind::reduce_scatter};
constexpr CallKind gathering_kinds[] = {CallKind::all_gather};

// What is measured, for each setting and for the times. Pure functions of the plan.
Cases cases_of(const TunePlan& plan, std::span<const CallKind> kinds, std::span<const BufferKind> buffers,
               const std::function<std::vector<std::size_t>(CallKind kind, int ranks)>& sizes) {
  Cases cases;
  for (const int ranks : plan.ranks)
    for (const CallKind kind : kinds)
      for (const BufferKind buffer : buffers)
        for (const std::size_t bytes : sizes(kind, ranks))
          if (bytes <= plan.most_bytes) cases.push_back({ranks, kind, buffer, bytes});
  return cases;
}

constexpr BufferKind heap[] = {BufferKind::malloc}, windows[] = {BufferKind::rondo},
                     any_memory[] = {BufferKind::malloc, BufferKind::rondo};

Cases staging_size_cases(const TunePlan& plan) {
  return cases_of(plan, all_kinds, heap, [](CallKind, int) -> std::vector<std::size_t> {
    return {64 * KiB, 1 * MiB, 8 * MiB};
  });
}

// Larger than what goes by slots.
Cases staged_or_not_cases(const TunePlan& plan, std::span<const CallKind> kinds) {
  return cases_of(plan, kinds, heap, [](CallKind kind, int ranks) {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = 8 * KiB; bytes <= 32 * MiB; bytes *= 4)
      sizes.push_back(kind == CallKind::all_gather
                          ? std::max(bytes, 2 * slot_bytes * static_cast<std::size_t>(ranks))
                          : bytes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  });
}

// Sizes at which a call touches an eighth of the shared cache to twice as much as it holds.
Cases streaming_stores_cases(const TunePlan& plan, std::span<const BufferKind> buffers) {
  return cases_of(plan, all_kinds, buffers, [](CallKind kind, int ranks) {
    std::vector<std::size_t> sizes;
    const std::size_t cache = this_machine().l3_bytes;
    for (std::size_t touched = cache / 8; touched <= 2 * cache; touched *= 2)
      sizes.push_back(touched / touched_bytes(kind, 1, ranks));
    return sizes;
  });
}

Cases time_cases(const TunePlan& plan) {
  return cases_of(plan, all_kinds, any_memory, [](CallKind, int) -> std::vector<std::size_t> {
    return {64,        1 * KiB, 4 * KiB, 8 * KiB,  16 * KiB, 64 * KiB,
            256 * KiB, 1 * MiB, 4 * MiB, 16 * MiB, 64 * MiB};
  });
}

std::vector<std::size_t> staging_sizes() {
  const std::size_t standard = Settings().staging_bytes;
  return {standard, standard / 8, standard / 4, standard / 2, 2 * standard};
}

// The communicators on which one setting has one value: one for each number of ranks.
class Trial {
 public:
  Trial(Communicator& world, const std::vector<int>& rank_counts, const Settings& settings) {
    for (const int ranks : rank_counts)
      communicators_.push_back(world.split(world.rank() < ranks ? 0 : -1, world.rank(), {settings, "tune"}));
  }
  // Null on ranks that are not among them.
  Communicator* of(int ranks) const {
    for (const auto& one : communicators_)
      if (one && one->size() == ranks) return one.get();
    return nullptr;
  }

 private:
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

class Tuner {
 public:
  Tuner(Communicator& world, const TunePlan& plan, const std::function<void()>& advance)
      : world_(world),
        plan_(plan),
        advance_(advance),
        bench_(plan.most_bytes),
        step_time_(plan.seconds / static_cast<double>(tune_step_count(plan))),
        settings_(world.options().settings) {}

  TuneResult run() {
    tune_staging_size();
    tune_two_ways("RONDO_STAGED_GATHER_ABOVE", staged_or_not_cases(plan_, gathering_kinds), size_of_case);
    tune_two_ways("RONDO_STAGED_REDUCE_ABOVE", staged_or_not_cases(plan_, reducing_kinds), size_of_case);
    tune_two_ways("RONDO_WINDOWS_STREAMING_ABOVE", streaming_stores_cases(plan_, windows), touched_by_case);
    tune_two_ways("RONDO_STAGED_STREAMING_ABOVE", streaming_stores_cases(plan_, heap), touched_by_case);
    measure_times();
    return std::move(result_);
  }

 private:
  using Scale = std::size_t (*)(const TuneCase&);
  static std::size_t size_of_case(const TuneCase& one) { return one.bytes; }
  // Sizes are cut to whole elements: rounded up, cases that are to touch as much stand at one place.
  static std::size_t touched_by_case(const TuneCase& one) {
    return (touched_bytes(one.kind, one.bytes, one.ranks) + MiB - 1) / MiB * MiB;
  }

  // By case, by value, by round: the values take turns, each of them the first one in some rounds.
  std::vector<std::vector<Rounds>> interleaved(const Cases& cases, const Variable& variable,
                                               const std::vector<std::size_t>& values) {
    std::vector<Trial> trials;
    for (const std::size_t value : values) {
      Settings settings = settings_;
      settings.*variable.tuned = value;
      trials.emplace_back(world_, plan_.ranks, settings);
    }
    std::vector<std::vector<Rounds>> all;
    for (const TuneCase& one : cases) {
      std::vector<Rounds>& times = all.emplace_back(values.size(), Rounds(rounds));
      for (std::size_t round = 0; round < rounds; ++round)
        for (std::size_t turn = 0; turn < values.size(); ++turn) {
          const std::size_t value = (round + turn) % values.size();
          times[value][round] = measure(trials[value], one);
        }
    }
    return all;
  }

  // Each rank on cores of its own, where there are enough: two that meet on one core would measure that.
  void bind_for(int ranks) {
    if (ranks == bound_for_) return;
    bound_for_ = ranks;
    const auto shares = share_cores(cores_, ranks);
    cpu_set_t cpus = all_cpus_;
    if (!shares.empty() && world_.rank() < ranks) {
      CPU_ZERO(&cpus);
      for (const int cpu : shares[static_cast<std::size_t>(world_.rank())])
        CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    }
    ::sched_setaffinity(0, sizeof cpus, &cpus);
  }

  // Rank 0 takes part in everything, and what it has measured counts everywhere.
  double measure(const Trial& trial, const TuneCase& which) {
    double time = 0;
    bind_for(which.ranks);
    if (Communicator* const communicator = trial.of(which.ranks))
      time = bench_.measure(*communicator, which, step_time_);
    const Seat seat{world_.rank(), world_.size()};
    world_.run(broadcast_call(seat, &time, &time, 1, DataType::f64, 0));
    advance_();
    return time;
  }

  void tune_staging_size() {
    const Variable& variable = variable_called("RONDO_STAGING_BYTES");
    const std::vector<std::size_t> values = staging_sizes();
    const auto times = interleaved(staging_size_cases(plan_), variable, values);
    std::vector<Candidate> candidates;
    for (std::size_t value = 0; value < values.size(); ++value) {
      Candidate& candidate = candidates.emplace_back(Candidate{values[value], {}});
      for (const auto& of_case : times) candidate.times.push_back(&of_case[value]);
    }
    settle(variable, choose(candidates));
  }

  void tune_two_ways(const char* name, const Cases& cases, Scale scale) {
    const Variable& variable = variable_called(name);
    auto times = interleaved(cases, variable, {never, 0});
    std::vector<TwoWays> ways;
    for (std::size_t i = 0; i < cases.size(); ++i)
      ways.push_back({scale(cases[i]), std::move(times[i][0]), std::move(times[i][1])});
    settle(variable, choose_threshold(settings_.*variable.tuned, ways));
  }

  void settle(const Variable& variable, const Choice& choice) {
    result_.settings.push_back({variable.name, settings_.*variable.tuned, choice});
    settings_.*variable.tuned = choice.value;
  }

  void measure_times() {
    const Trial trial(world_, plan_.ranks, settings_);
    for (const TuneCase& one : time_cases(plan_)) {
      const std::string kind = name_of(one.kind), buffers = name_of(one.buffers);
      if (result_.times.empty() || result_.times.back().collective != kind ||
          result_.times.back().buffers != buffers || result_.times.back().ranks != one.ranks)
        result_.times.push_back({kind, buffers, one.ranks, {}});
      result_.times.back().microseconds[one.bytes] = measure(trial, one);
    }
  }

  static const Variable& variable_called(const std::string& name) {
    for (const Variable& variable : variables())
      if (variable.name == name) return variable;
    fail(ErrorKind::internal, "no variable {}", name);
  }

  Communicator& world_;
  const TunePlan& plan_;
  const std::function<void()>& advance_;
  TuneBench bench_;
  std::chrono::duration<double> step_time_;
  std::vector<CacheGroup> cores_ = usable_cores();
  cpu_set_t all_cpus_ = allowed_cpus();
  int bound_for_ = 0;
  Settings settings_;  // with what has been chosen so far
  TuneResult result_;
};

}  // namespace

std::size_t tune_step_count(const TunePlan& plan) {
  const std::size_t two_ways =
      staged_or_not_cases(plan, all_kinds).size() + streaming_stores_cases(plan, any_memory).size();
  return rounds * (staging_sizes().size() * staging_size_cases(plan).size() + 2 * two_ways) +
         time_cases(plan).size();
}

TuneResult tune_host(Communicator& world, const TunePlan& plan, const std::function<void()>& advance) {
  return Tuner(world, plan, advance).run();
}

}  // namespace rondo
