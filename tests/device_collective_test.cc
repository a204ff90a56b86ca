// The GPU's collectives, run here as plain functions: ranks are threads, or processes that map one another's
// memory, each with one thread that runs its blocks one after another. Results are held against the CPU's
// reductions, bit by bit, and bytes against docs/algorithms.md. Then the same on a GPU, where there is one.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "kernels/device/grid.h"
#include "kernels/device/run.h"
#include "kernels/reduce.h"
#include "src/calls.h"
#include "src/shared_memory.h"
#include "tests/elements.h"
#include "tests/gpu.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using device::CollectiveCall;
using device::CollectiveKind;
using device::ExchangeSizes;
using device::Failure;
using device::FailureKind;
using device::Way;

constexpr std::byte sentinel{0xA5};
constexpr std::size_t guard = 32, most_user_bytes = 64 << 10;
constexpr std::chrono::nanoseconds long_timeout = std::chrono::seconds(60);

// One call that all ranks make.
struct Case {
  CollectiveKind kind;
  Way way;
  DataType type;
  ReduceOp op;
  std::size_t count;
  int size;
  int blocks = 1, root = 0;
  bool in_place = false;
  std::size_t misalign = 0;
  unsigned number = 0;  // seed of the inputs, and what ranks compare

  std::size_t element() const { return size_of(type); }
  std::size_t ranks() const { return static_cast<std::size_t>(size); }
  bool reduces() const {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  }
  std::size_t input_count() const {
    const bool all = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
    return all ? count * ranks() : count;
  }
  std::size_t output_count() const {
    const bool all = kind == CollectiveKind::all_gather || kind == CollectiveKind::all_to_all;
    return all ? count * ranks() : count;
  }
  // Ranks' buffers lie alike in every second call.
  std::size_t offset(int rank) const {
    return guard + (number % 2 == 0 ? misalign : (misalign + 5 * static_cast<std::size_t>(rank)) % 16);
  }
  Memory input_of(int rank) const {
    std::mt19937 random(number * 64 + static_cast<unsigned>(rank));
    return random_elements(type, input_count(), random);
  }
  std::string text() const {
    constexpr std::array kinds{"all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all"};
    constexpr std::array ways{"one-shot", "staged", "windows", "ring"};
    return std::string(ways[static_cast<std::size_t>(way)]) + " " + kinds[static_cast<std::size_t>(kind)] +
           " of " + std::to_string(count) + " " + std::string(name_of(type)) + " " +
           std::string(name_of(op)) + ", " + std::to_string(size) + " ranks, " + std::to_string(blocks) +
           " blocks" + (in_place ? ", in place" : "") + ", number " + std::to_string(number);
  }
};

// ---- what must come out ----

struct Chunk {
  std::size_t begin, count;  // elements
};

Chunk chunk_of(const Case& one, std::size_t r) {
  if (one.kind != CollectiveKind::all_reduce) return {r * one.count, one.count};
  Chunk chunk{0, 0};
  for (std::size_t i = 0; i <= r; ++i) {
    chunk.begin += chunk.count;
    chunk.count = one.count / one.ranks() + (i < one.count % one.ranks() ? 1 : 0);
  }
  return chunk;
}

void add_up(const Case& one, std::vector<const std::byte*> sources, bool first_is_partial, bool complete,
            std::byte* target, std::size_t count) {
  reduce({one.type, one.op, factor_of(one.type, 3), one.size}, sources,
         first_is_partial ? FirstSource::partial : FirstSource::input,
         complete ? Result::complete : Result::partial, target, count);
}

// docs/numerics.md: rank order rounds once, ring order at each hop.
Memory reduced_chunk(const Case& one, const std::vector<Memory>& inputs, std::size_t c) {
  const Chunk chunk = chunk_of(one, c);
  const auto of = [&](std::size_t rank) { return inputs[rank].data() + chunk.begin * one.element(); };
  Memory result(chunk.count * one.element());
  std::vector<const std::byte*> all;
  if (one.way != Way::ring || one.size == 1) {
    for (std::size_t rank = 0; rank < one.ranks(); ++rank) all.push_back(of(rank));
    add_up(one, all, false, true, result.data(), chunk.count);
    return result;
  }
  Memory partial(of((c + 1) % one.ranks()), of((c + 1) % one.ranks()) + result.size());
  for (std::size_t hop = 1; hop < one.ranks(); ++hop) {
    const bool last = hop == one.ranks() - 1;
    add_up(one, {partial.data(), of((c + 1 + hop) % one.ranks())}, hop > 1, last, result.data(), chunk.count);
    partial = result;
  }
  return result;
}

Memory expected_output(const Case& one, int rank) {
  std::vector<Memory> inputs;
  for (int r = 0; r < one.size; ++r) inputs.push_back(one.input_of(r));
  const auto own = static_cast<std::size_t>(rank);
  Memory output;
  const auto append = [&](const Memory& from, std::size_t begin, std::size_t count) {
    const auto at = from.begin() + static_cast<long>(begin * one.element());
    output.insert(output.end(), at, at + static_cast<long>(count * one.element()));
  };
  switch (one.kind) {
    case CollectiveKind::all_reduce:
      for (std::size_t c = 0; c < one.ranks(); ++c)
        append(reduced_chunk(one, inputs, c), 0, chunk_of(one, c).count);
      break;
    case CollectiveKind::reduce_scatter:
      append(reduced_chunk(one, inputs, own), 0, one.count);
      break;
    case CollectiveKind::all_gather:
      for (const Memory& input : inputs) append(input, 0, one.count);
      break;
    case CollectiveKind::broadcast:
      append(inputs[static_cast<std::size_t>(one.root)], 0, one.count);
      break;
    case CollectiveKind::all_to_all:
      for (const Memory& input : inputs) append(input, own * one.count, one.count);
      break;
  }
  return output;
}

using ByRank = std::vector<std::uint64_t>;
struct Bytes {
  ByRank sent, fetched;
};

// docs/algorithms.md, "Bytes that rank r sends"; nothing to itself.
Bytes expected_bytes(const Case& one, int rank) {
  Bytes bytes{ByRank(one.ranks()), ByRank(one.ranks())};
  const auto c = [&](std::size_t r) { return chunk_of(one, r).count * one.element(); };
  const std::size_t r = static_cast<std::size_t>(rank), right = (r + 1) % one.ranks();
  const bool root = rank == one.root;
  const std::size_t all =
      one.kind == CollectiveKind::all_reduce ? one.count * one.element() : one.ranks() * c(0);
  if (one.way == Way::ring) {
    switch (one.kind) {
      case CollectiveKind::all_reduce:
        bytes.sent[right] = 2 * all - c(r) - c(right);
        break;
      case CollectiveKind::reduce_scatter:
        bytes.sent[right] = all - c(r);
        break;
      case CollectiveKind::all_gather:
        bytes.sent[right] = all - c(right);
        break;
      case CollectiveKind::broadcast:
        bytes.sent[right] = static_cast<int>(right) == one.root ? 0 : c(0);
        break;
      case CollectiveKind::all_to_all:
        break;
    }
  } else {
    const bool windows = one.way == Way::windows;
    for (std::size_t p = 0; p < one.ranks(); ++p) {
      switch (one.kind) {
        case CollectiveKind::all_reduce:
          bytes.sent[p] = one.way == Way::one_shot ? all : windows ? c(r) : c(p) + c(r);
          if (windows) bytes.fetched[p] = c(r);
          break;
        case CollectiveKind::reduce_scatter:
        case CollectiveKind::all_to_all:
          (windows ? bytes.fetched : bytes.sent)[p] = c(p);
          break;
        case CollectiveKind::all_gather:
          bytes.sent[p] = c(r);
          break;
        case CollectiveKind::broadcast:
          if (windows)
            bytes.fetched[p] = static_cast<int>(p) == one.root ? c(0) : 0;
          else
            bytes.sent[p] = root ? c(0) : 0;
          break;
      }
    }
  }
  bytes.sent[r] = bytes.fetched[r] = 0;
  return bytes;
}

// ---- ranks and their memory ----

// Words that the host shares with a rank's kernels, and the rank's ledger.
struct Words {
  std::uint64_t abort, failure;
  std::array<std::uint64_t, device::most_ranks> sent, fetched;
};

// The memory of all ranks, as one of them has it mapped: exchange memory, words, and the users' buffers.
class World {
 public:
  World(std::byte* memory, int size, ExchangeSizes sizes) : memory_(memory), size_(size), sizes_(sizes) {}

  static std::size_t bytes(int size, ExchangeSizes sizes) {
    return static_cast<std::size_t>(size) * rank_bytes(sizes);
  }

  Words& words(int rank) const { return *reinterpret_cast<Words*>(begin(rank) + sizes_.all()); }

  CollectiveCall call(const Case& one, int rank, std::chrono::nanoseconds timeout = long_timeout) const {
    CollectiveCall call{};
    call.kind = one.kind;
    call.way = one.way;
    call.type = one.type;
    call.op = one.op;
    call.scalar = factor_of(one.type, 3);
    call.rank = rank;
    call.size = size_;
    call.root = one.root;
    call.count = one.count;
    call.signature = one.number * 2654435761u + 1;
    call.input = input(one, rank);
    call.output = output(one, rank);
    for (int peer = 0; peer < size_; ++peer)
      call.peers[peer] = {begin(peer), one.way == Way::windows ? input(one, peer) : nullptr,
                          one.way == Way::windows ? output(one, peer) : nullptr};
    call.sizes = sizes_;
    Words& own = words(rank);
    call.sent = own.sent.data();
    call.fetched = own.fetched.data();
    call.abort = &own.abort;
    call.failure = &own.failure;
    call.timeout_ns = static_cast<std::uint64_t>(timeout.count());
    return call;
  }

  void prepare(const Case& one, int rank) const {
    std::memset(user(rank, 0), static_cast<int>(sentinel), 2 * user_bytes);
    const Memory input = one.input_of(rank);
    if (!input.empty()) std::memcpy(this->input(one, rank), input.data(), input.size());
    words(rank).sent = words(rank).fetched = {};
  }

  void expect_result(const Case& one, int rank) const {
    ASSERT_EQ(words(rank).failure, 0u) << one.text() << ", rank " << rank;
    const Memory expected = expected_output(one, rank);
    ASSERT_TRUE(same(one.type, output(one, rank), expected.data(), one.output_count()))
        << one.text() << ", rank " << rank;
    expect_untouched(one, rank, one.output_count());
    const Bytes bytes = expected_bytes(one, rank);
    const auto counted = [&](const auto& by_rank) {
      return ByRank(by_rank.begin(), by_rank.begin() + size_);
    };
    ASSERT_EQ(counted(words(rank).sent), bytes.sent) << one.text() << ", rank " << rank;
    ASSERT_EQ(counted(words(rank).fetched), bytes.fetched) << one.text() << ", rank " << rank;
  }

  // All but the first elements of the output: the input, and what lies around both.
  void expect_untouched(const Case& one, int rank, std::size_t output_count) const {
    Memory before(2 * user_bytes, sentinel);
    const Memory input = one.input_of(rank);
    std::copy(input.begin(), input.end(), before.begin() + (this->input(one, rank) - user(rank, 0)));
    const std::byte* const after = user(rank, 0);
    const std::byte* const output = this->output(one, rank);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (after + i >= output && after + i < output + output_count * one.element()) continue;
      ASSERT_EQ(after[i], before[i]) << one.text() << ", rank " << rank << ": byte " << i << ", output at "
                                     << output - after;
    }
  }

 private:
  static constexpr std::size_t user_bytes = most_user_bytes + 2 * guard + 16;
  static std::size_t rank_bytes(ExchangeSizes sizes) {
    return (sizes.all() + sizeof(Words) + 2 * user_bytes + 63) / 64 * 64;
  }

  std::byte* begin(int rank) const { return memory_ + static_cast<std::size_t>(rank) * rank_bytes(sizes_); }
  std::byte* user(int rank, std::size_t buffer) const {
    return begin(rank) + sizes_.all() + sizeof(Words) + buffer * user_bytes;
  }
  static std::size_t own_part(const Case& one, int rank) {
    return static_cast<std::size_t>(rank) * one.count * one.element();
  }
  std::byte* input(const Case& one, int rank) const {
    const bool within = one.in_place && one.kind == CollectiveKind::all_gather;
    return user(rank, 0) + one.offset(rank) + (within ? own_part(one, rank) : 0);
  }
  std::byte* output(const Case& one, int rank) const {
    if (!one.in_place) return user(rank, 1) + (one.offset(rank) * 3) % 48;
    const bool within = one.kind == CollectiveKind::reduce_scatter;
    return user(rank, 0) + one.offset(rank) + (within ? own_part(one, rank) : 0);
  }

  std::byte* memory_;
  int size_;
  ExchangeSizes sizes_;
};

void run_blocks(const CollectiveCall& call, int blocks) {
  for (int block = 0; block < blocks; ++block) device::run_collective(call, {block, blocks, 0, 1});
}

// Memory of all ranks, zeroed: for threads one mapping, for processes one in each.
class WorldMemory {
 public:
  WorldMemory(int size, ExchangeSizes sizes)
      : size_(size), sizes_(sizes), memory_(make_shared_memory("ranks", bytes(), 0)) {}

  // Stays mapped until the process ends.
  World map() const { return {map_shared_memory(memory_, bytes(), Pages::when_touched), size_, sizes_}; }

 private:
  std::size_t bytes() const {
    constexpr std::size_t page = 4096;
    return (World::bytes(size_, sizes_) + page - 1) / page * page;
  }

  int size_;
  ExchangeSizes sizes_;
  Fd memory_;
};

ExchangeSizes small_sizes(int size) { return {device::least_area(size) * 5, device::least_queue * 4}; }

// All ranks make the calls one after another, with nothing in between but looking at their own results.
void run_calls(const std::vector<Case>& calls, int size, ExchangeSizes sizes, RanksAre kind) {
  const WorldMemory memory(size, sizes);
  const auto run_rank = [&](const World& world, int rank) {
    for (const Case& one : calls) {
      world.prepare(one, rank);
      run_blocks(world.call(one, rank), one.blocks);
      ASSERT_NO_FATAL_FAILURE(world.expect_result(one, rank));
    }
  };
  if (kind == RanksAre::processes)
    return run_processes(size, [&](int rank) { run_rank(memory.map(), rank); });
  const World world = memory.map();
  run_threads(size, [&](int rank) { run_rank(world, rank); });
}

struct KindAndWay {
  CollectiveKind kind;
  Way way;
};

std::vector<KindAndWay> all_kinds_and_ways() {
  std::vector<KindAndWay> all{{CollectiveKind::all_reduce, Way::one_shot},
                              {CollectiveKind::all_to_all, Way::staged},
                              {CollectiveKind::all_to_all, Way::windows}};
  for (const Way way : {Way::staged, Way::windows, Way::ring})
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::broadcast})
      all.push_back({kind, way});
  return all;
}

// Every kind and way with every count, and types, operators, blocks, alignments and roots in turn.
std::vector<Case> mixed_calls(int size, std::span<const std::size_t> counts) {
  std::vector<Case> calls;
  for (const std::size_t count : counts)
    for (const KindAndWay& one : all_kinds_and_ways()) {
      const auto n = static_cast<unsigned>(calls.size());
      const auto type = static_cast<DataType>(n * 7 % data_type_count);
      const auto op = static_cast<ReduceOp>(n * 5 % reduce_op_count);
      const bool in_place = n % 3 == 1 && one.kind != CollectiveKind::all_to_all;
      calls.push_back({one.kind, one.way, type, op, count, size, 1 + static_cast<int>(n % 3),
                       static_cast<int>(n) % size, in_place, n * 3 % 16, n});
    }
  return calls;
}

class DeviceCollective : public ::testing::TestWithParam<std::tuple<int, RanksAre>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  RanksAre kind() const { return std::get<1>(GetParam()); }
};

// Areas hold some 150 bytes of a chunk and block, so all but the smallest calls take several rounds.
TEST_P(DeviceCollective, CallsOfAllKindsFollowOneAnother) {
  const std::size_t counts[] = {0, 1, 64, 333};
  run_calls(mixed_calls(size(), counts), size(), small_sizes(size()), kind());
}

TEST_P(DeviceCollective, ManySmallCallsReuseTheAreas) {
  std::vector<Case> calls;
  for (unsigned n = 0; n < 60; ++n) {
    const KindAndWay one = all_kinds_and_ways()[n % 4 == 3 ? n % all_kinds_and_ways().size() : 0];
    calls.push_back(
        {one.kind, one.way, DataType::f32, ReduceOp::sum, 1 + n % 5, size(), 1 + static_cast<int>(n % 2)});
    calls.back().number = n;
  }
  run_calls(calls, size(), small_sizes(size()), kind());
}

TEST_P(DeviceCollective, LargeAreasTakeACallInOneRound) {
  const std::size_t counts[] = {1000};
  run_calls(mixed_calls(size(), counts), size(), {std::size_t{1} << 22, std::size_t{1} << 22}, kind());
}

std::string name_of_ranks(const ::testing::TestParamInfo<std::tuple<int, RanksAre>>& info) {
  return std::to_string(std::get<0>(info.param)) +
         (std::get<1>(info.param) == RanksAre::processes ? "Processes" : "Threads");
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollective,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(RanksAre::processes, RanksAre::threads)),
                         name_of_ranks);

class DeviceReductions : public ::testing::TestWithParam<DataType> {};

TEST_P(DeviceReductions, OfEveryOperatorAndWayHaveTheBitsOfTheirClassThreads) {
  std::vector<Case> calls;
  for (const KindAndWay& one : all_kinds_and_ways())
    for (const ReduceOp op : all_ops()) {
      calls.push_back({one.kind, one.way, GetParam(), op, 83, 4, 2});
      if (!calls.back().reduces()) calls.pop_back();
    }
  for (std::size_t n = 0; n < calls.size(); ++n) calls[n].number = static_cast<unsigned>(n);
  run_calls(calls, 4, small_sizes(4), RanksAre::threads);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceReductions, ::testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- against the CPU's collectives ----

// The same inputs through a communicator, as another rank of the same number.
void expect_as_on_the_cpu(Algorithm algorithm, Way way) {
  const int size = 4;
  std::vector<Case> calls;
  for (const DataType type : {DataType::f16, DataType::f32, DataType::bf16})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum}) {
      calls.push_back({CollectiveKind::all_reduce, way, type, op, 1001, size, 2});
      calls.back().number = static_cast<unsigned>(calls.size());
    }
  const WorldMemory memory(size, {std::size_t{1} << 20, std::size_t{1} << 20});
  const World world = memory.map();
  const auto body = [&](Communicator& comm) {
    const int rank = comm.rank();
    for (const Case& one : calls) {
      world.prepare(one, rank);
      const CollectiveCall call = world.call(one, rank);
      run_blocks(call, one.blocks);
      const Memory input = one.input_of(rank);
      Memory output(input.size());
      comm.run(all_reduce_call({rank, size}, input.data(), output.data(), one.count, one.type,
                               {one.op, call.scalar}));
      ASSERT_TRUE(same(one.type, call.output, output.data(), one.count)) << one.text();
    }
  };
  run_ranks(size, body, test_options(algorithm), RanksAre::threads);
}

TEST(DeviceAndCpu, GiveTheSameBitsInRankOrderThreads) {
  expect_as_on_the_cpu(Algorithm::direct, Way::staged);
}
TEST(DeviceAndCpu, GiveTheSameBitsInRingOrderThreads) { expect_as_on_the_cpu(Algorithm::ring, Way::ring); }

// ---- failures ----

constexpr Case two_ranks{CollectiveKind::all_reduce, Way::staged, DataType::f32, ReduceOp::sum, 100, 2, 2};

Failure failure_of(const World& world, int rank) { return Failure::of(world.words(rank).failure); }

class DeviceFailure : public ::testing::TestWithParam<Way> {
 protected:
  Case call() const {
    Case one = two_ranks;
    one.way = GetParam();
    return one;
  }
  WorldMemory memory_{2, small_sizes(2)};
  World world_ = memory_.map();
};

TEST_P(DeviceFailure, ARankThatDoesNotComeIsNamedAtTheDeadlineThreads) {
  const Case one = call();
  world_.prepare(one, 0);
  const auto begin = std::chrono::steady_clock::now();
  run_blocks(world_.call(one, 0, std::chrono::milliseconds(100)), one.blocks);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(failure_of(world_, 0).kind, FailureKind::timeout);
  EXPECT_EQ(failure_of(world_, 0).peer, 1);
  EXPECT_EQ(failure_of(world_, 0).block, 0);
  EXPECT_GE(took, std::chrono::milliseconds(100));
  EXPECT_LT(took, std::chrono::seconds(10));
  world_.expect_untouched(one, 0, 0);
}

TEST_P(DeviceFailure, ARankThatStopsOnTheWayIsNamedThreads) {
  const Case one = call();
  run_threads(2, [&](int rank) {
    world_.prepare(one, rank);
    const CollectiveCall call = world_.call(one, rank, std::chrono::milliseconds(300));
    if (rank == 0)
      run_blocks(call, one.blocks);
    else
      device::run_collective(call, {0, one.blocks, 0, 1});
  });
  EXPECT_EQ(failure_of(world_, 0).kind, FailureKind::timeout);
  EXPECT_EQ(failure_of(world_, 0).peer, 1);
  EXPECT_EQ(failure_of(world_, 0).block, 1);
  EXPECT_EQ(world_.words(1).failure, 0u);
}

TEST_P(DeviceFailure, AnAbortEndsAWaitThreads) {
  const Case one = call();
  world_.prepare(one, 0);
  std::jthread waiting([&] { run_blocks(world_.call(one, 0, std::chrono::nanoseconds(0)), one.blocks); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic_ref(world_.words(0).abort).store(1);
  waiting.join();
  EXPECT_EQ(failure_of(world_, 0).kind, FailureKind::aborted);
  EXPECT_EQ(failure_of(world_, 0).peer, 1);
}

TEST_P(DeviceFailure, CallsThatDifferAreFoundOnAllRanksBeforeAByteIsStoredThreads) {
  run_threads(2, [&](int rank) {
    Case one = call();
    one.number = static_cast<unsigned>(2 * rank);
    world_.prepare(one, rank);
    run_blocks(world_.call(one, rank, std::chrono::seconds(20)), one.blocks);
    EXPECT_EQ(failure_of(world_, rank).kind, FailureKind::mismatch);
    EXPECT_EQ(failure_of(world_, rank).peer, 1 - rank);
    world_.expect_untouched(one, rank, 0);
  });
}

std::string name_of_way(const ::testing::TestParamInfo<Way>& info) {
  constexpr std::array names{"OneShot", "Staged", "Windows", "Ring"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceFailure,
                         ::testing::Values(Way::one_shot, Way::staged, Way::windows, Way::ring), name_of_way);

TEST(DeviceFailureWord, SaysWhatItWasMadeOf) {
  const Failure failure{FailureKind::mismatch, device::Point::finished, 63, 31, 0xFFFFFFFEu};
  const Failure read = Failure::of(failure.word());
  EXPECT_EQ(read.kind, failure.kind);
  EXPECT_EQ(read.point, failure.point);
  EXPECT_EQ(read.block, failure.block);
  EXPECT_EQ(read.peer, failure.peer);
  EXPECT_EQ(read.round, failure.round);
}

// Rounds are told modulo 2^32: some 12 hours of calls of 10 microseconds.
TEST(DeviceRounds, GoOnWhenTheirNumberOverflowsThreads) {
  const int size = 3;
  const std::uint64_t before = (std::uint64_t{1} << 32) - 4;
  const WorldMemory memory(size, small_sizes(size));
  const World world = memory.map();
  Case one{CollectiveKind::all_reduce, Way::staged, DataType::i32, ReduceOp::sum, 5, size};
  for (int rank = 0; rank < size; ++rank) device::flags_of(world.call(one, 0), rank, 0).state.rounds = before;
  run_threads(size, [&](int rank) {
    Case call = one;
    for (call.number = 0; call.number < 10; ++call.number) {
      world.prepare(call, rank);
      run_blocks(world.call(call, rank), call.blocks);
      ASSERT_NO_FATAL_FAILURE(world.expect_result(call, rank));
    }
  });
}

// ---- how many blocks ----

TEST(DeviceGrid, HasNoMoreBlocksThanBytesOrMultiprocessorsAllow) {
  EXPECT_EQ(device::blocks_for(0, 132, 1), 1);
  EXPECT_EQ(device::blocks_for(16384, 132, 1), 1);
  EXPECT_EQ(device::blocks_for(16385, 132, 1), 2);
  EXPECT_EQ(device::blocks_for(std::size_t{1} << 30, 132, 1), device::most_blocks);
  EXPECT_EQ(device::blocks_for(std::size_t{1} << 30, 132, 8), 16);
  EXPECT_EQ(device::blocks_for(std::size_t{1} << 30, 4, 8), 1);
  for (int ranks = 1; ranks <= 32; ++ranks)
    EXPECT_LE(ranks * device::blocks_for(std::size_t{1} << 30, 132, ranks), 132 / ranks * ranks);
}

// ---- on a GPU ----

class OnAGpu : public ::testing::TestWithParam<int> {};

TEST_P(OnAGpu, CallsOfAllKindsFollowOneAnother) {
  const std::string none = why_no_gpu();
  if (!none.empty()) GTEST_SKIP() << none;
  const int size = GetParam();
  const ExchangeSizes sizes = small_sizes(size);
  const SharedWithGpu memory(World::bytes(size, sizes));
  std::memset(memory.data(), 0, World::bytes(size, sizes));
  const World world(memory.data(), size, sizes);
  const std::size_t counts[] = {0, 1, 5, 64, 333, 700};
  for (const Case& one : mixed_calls(size, counts)) {
    std::vector<CollectiveCall> calls;
    for (int rank = 0; rank < size; ++rank) {
      world.prepare(one, rank);
      calls.push_back(world.call(one, rank));
    }
    collective_on_gpu(calls, one.blocks);
    for (int rank = 0; rank < size; ++rank) ASSERT_NO_FATAL_FAILURE(world.expect_result(one, rank));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, OnAGpu, ::testing::Values(1, 2, 3, 4, 8));

}  // namespace
}  // namespace rondo::test
