// Collectives x algorithm x ranks x counts x types x in place: data, sentinels around every buffer, and the
// ledger (strict: one byte's difference from the formula fails the call).
#include <cstring>

#include "src/calls.h"
#include "tests/ranks.h"
#include "tests/test_hosts.h"
#include "tests/typed_buffer.h"

namespace rondo::test {
namespace {

struct Case {
  int size;
  Algorithm algorithm;
  RanksAre kind;
  std::size_t staging_bytes = Settings().staging_bytes;
  Seating hosts = {};  // empty: one host
};

std::string name(const ::testing::TestParamInfo<Case>& info) {
  const std::size_t staging = info.param.staging_bytes;
  return fmt::format(
      "{}_{}_{}{}{}", info.param.size, test_name(info.param.algorithm),
      info.param.kind == RanksAre::processes ? "processes" : "threads",
      staging == Settings().staging_bytes ? "" : fmt::format("_staging_{}", staging),
      info.param.hosts.empty() ? "" : fmt::format("_hosts_{}", fmt::join(info.param.hosts, "")));
}

class Collectives : public ::testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(Communicator&, Seat)>& body) {
    const auto one = [&](Communicator& comm) { body(comm, {comm.rank(), comm.size()}); };
    if (spans_hosts())
      run_on_hosts(TestHosts::shared(hosts_of(GetParam().hosts)), GetParam().hosts, one, options());
    else
      run_ranks(GetParam().size, one, options(), GetParam().kind);
  }
  void SetUp() override {
    if (spans_hosts() && !TestHosts::obstacle().empty()) GTEST_SKIP() << TestHosts::obstacle();
  }
  static Algorithm expected_way(const Communicator& comm, int size);
  static bool spans_hosts() { return !GetParam().hosts.empty(); }
  static CommunicatorOptions options() {
    CommunicatorOptions options = test_options(GetParam().algorithm);
    options.settings.staging_bytes = GetParam().staging_bytes;
    return options;
  }

  static std::vector<std::size_t> counts(int size) {
    const auto n = static_cast<std::size_t>(size);
    return {0, 1, 2, n > 1 ? n - 1 : 1, n + 1, 10, 1009, 40'000};
  }
};

// Small whole numbers: every sum is exact in every type, in any order. Prime moduli, so that a shifted chunk
// shows.
double input(int rank, std::size_t index) {
  return static_cast<double>((index * 7 + 3) % 5 + static_cast<std::size_t>(rank) % 2);
}

double sum_of_inputs(int size, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += input(rank, index);
  return sum;
}

TEST_P(Collectives, AllReduceSumsEveryTypeAndCount) {
  run([](Communicator& comm, Seat seat) {
    for (const DataType type : all_types()) {
      for (const std::size_t count : counts(seat.size)) {
        for (const bool in_place : {false, true}) {
          TypedBuffer send(type, count), receive(type, count);
          send.fill([&](std::size_t i) { return input(seat.rank, i); });
          comm.run(
              all_reduce_call(seat, send.data(), in_place ? send.data() : receive.data(), count, type, {}));
          (in_place ? send : receive).expect([&](std::size_t i) { return sum_of_inputs(seat.size, i); });
          if (!in_place) send.expect([&](std::size_t i) { return input(seat.rank, i); });
        }
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesRankRItsChunk) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size), rank = static_cast<std::size_t>(seat.rank);
    for (const DataType type : all_types()) {
      for (const std::size_t count : counts(seat.size)) {
        for (const bool in_place : {false, true}) {
          TypedBuffer send(type, count * ranks), receive(type, count);
          send.fill([&](std::size_t i) { return input(seat.rank, i); });
          comm.run(reduce_scatter_call(seat, send.data(), in_place ? send.at(rank * count) : receive.data(),
                                       count, type, {}));
          const auto reduced = [&](std::size_t i) { return sum_of_inputs(seat.size, rank * count + i); };
          if (!in_place) receive.expect(reduced);
          // The rest of the input is as it was, also in place.
          send.expect([&](std::size_t i) {
            return in_place && i / std::max<std::size_t>(count, 1) == rank ? reduced(i % count)
                                                                           : input(seat.rank, i);
          });
        }
      }
    }
  });
}

TEST_P(Collectives, AllGatherBringsEveryRanksChunk) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size), rank = static_cast<std::size_t>(seat.rank);
    for (const DataType type : all_types()) {
      for (const std::size_t count : counts(seat.size)) {
        for (const bool in_place : {false, true}) {
          TypedBuffer send(type, count), receive(type, count * ranks);
          send.fill([&](std::size_t i) { return input(seat.rank, i); });
          if (in_place && count > 0)
            std::memcpy(receive.at(rank * count), send.data(), count * size_of(type));
          comm.run(all_gather_call(seat, in_place ? receive.at(rank * count) : send.data(), receive.data(),
                                   count, type));
          receive.expect([&](std::size_t i) { return input(static_cast<int>(i / count), i % count); });
        }
      }
    }
  });
}

TEST_P(Collectives, UnevenChunksLieOneAfterAnother) {
  run([](Communicator& comm, Seat seat) {
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < seat.size; ++rank)
      counts.push_back(rank % 3 == 1 ? 0 : static_cast<std::size_t>(17'000 * rank + 5));
    const auto start_of = [&](int rank) {
      std::size_t start = 0;
      for (int before = 0; before < rank; ++before) start += counts[static_cast<std::size_t>(before)];
      return start;
    };
    const std::size_t total = start_of(seat.size), mine = counts[static_cast<std::size_t>(seat.rank)];
    const DataType type = DataType::i32;
    TypedBuffer all(type, total), part(type, mine);
    part.fill([&](std::size_t i) { return input(seat.rank, i); });
    comm.run(all_gather_v_call(seat, part.data(), all.data(), counts, type));
    all.expect([&](std::size_t i) {
      int rank = 0;
      while (i >= start_of(rank + 1)) ++rank;
      return input(rank, i - start_of(rank));
    });
    all.fill([&](std::size_t i) { return input(seat.rank, i); });
    comm.run(reduce_scatter_v_call(seat, all.data(), part.data(), counts, type, {}));
    part.expect([&](std::size_t i) { return sum_of_inputs(seat.size, start_of(seat.rank) + i); });
  });
}

TEST_P(Collectives, RootedCallsWorkForEveryRoot) {
  run([](Communicator& comm, Seat seat) {
    const DataType type = DataType::f32;
    const auto ranks = static_cast<std::size_t>(seat.size);
    for (int root = 0; root < seat.size; ++root) {
      for (const std::size_t count : counts(seat.size)) {
        const bool is_root = seat.rank == root;
        TypedBuffer one(type, count), other(type, count), all(type, count * ranks);
        one.fill([&](std::size_t i) { return input(seat.rank, i); });
        other.fill([](std::size_t) { return 77; });

        comm.run(broadcast_call(seat, one.data(), other.data(), count, type, root));
        other.expect([&](std::size_t i) { return input(root, i); });

        other.fill([](std::size_t) { return 77; });
        comm.run(reduce_call(seat, one.data(), other.data(), count, type, {}, root));
        other.expect([&](std::size_t i) { return is_root ? sum_of_inputs(seat.size, i) : 77; });
        one.expect([&](std::size_t i) { return input(seat.rank, i); });

        all.fill([](std::size_t) { return 77; });
        comm.run(gather_call(seat, one.data(), all.data(), count, type, root));
        all.expect(
            [&](std::size_t i) { return is_root ? input(static_cast<int>(i / count), i % count) : 77; });

        all.fill([&](std::size_t i) { return input(root, i); });
        other.fill([](std::size_t) { return 77; });
        comm.run(scatter_call(seat, all.data(), other.data(), count, type, root));
        other.expect(
            [&](std::size_t i) { return input(root, static_cast<std::size_t>(seat.rank) * count + i); });
      }
    }
  });
}

TEST_P(Collectives, AllToAllTransposesBlocks) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size);
    for (const std::size_t count : counts(seat.size)) {
      TypedBuffer send(DataType::i64, count * ranks), receive(DataType::i64, count * ranks);
      send.fill([&](std::size_t i) { return input(seat.rank, i); });
      comm.run(all_to_all_call(seat, send.data(), receive.data(), count, DataType::i64));
      receive.expect([&](std::size_t i) {
        return input(static_cast<int>(i / count), static_cast<std::size_t>(seat.rank) * count + i % count);
      });
    }
  });
}

Algorithm Collectives::expected_way(const Communicator& comm, int size) {
  if (GetParam().algorithm == Algorithm::ring) return Algorithm::ring;
  if (GetParam().algorithm == Algorithm::one_shot) return Algorithm::one_shot;
  if (GetParam().algorithm == Algorithm::doubling) return Algorithm::doubling;
  if (!spans_hosts()) return size > 1 && GetParam().staging_bytes > 0 ? Algorithm::staged : Algorithm::direct;
  if (GetParam().algorithm == Algorithm::direct) return Algorithm::direct;
  return has_hierarchy(CallKind::all_reduce, comm.hosts()) ? Algorithm::hierarchy : Algorithm::ring;
}

// The cases below cover what they are meant to.
TEST_P(Collectives, GoTheWayThatTheSettingsSay) {
  run([](Communicator& comm, Seat seat) {
    TypedBuffer buffer(DataType::f32, 40'000);
    comm.run(all_reduce_call(seat, buffer.data(), buffer.data(), 40'000, DataType::f32, {}));
    const auto rows = comm.ledger().rows();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows.begin()->first.algorithm, expected_way(comm, seat.size));
    if (GetParam().algorithm != Algorithm::tree) return;
    comm.run(broadcast_call(seat, buffer.data(), buffer.data(), 40'000, DataType::f32, 0));
    EXPECT_EQ(comm.ledger().rows().count({"", CallKind::broadcast, Algorithm::tree}), 1u);
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    for (const int size : {1, 2, 3, 4, 5, 7}) all.push_back({size, algorithm, RanksAre::processes});
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9})
    for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::doubling, Algorithm::tree})
      all.push_back({size, algorithm, RanksAre::processes});
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    for (const int size : {2, 3, 6}) all.push_back({size, algorithm, RanksAre::threads});
  for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::doubling, Algorithm::tree})
    all.push_back({3, algorithm, RanksAre::threads});
  // Without staging areas, and with areas of a number that divides nothing, for many small rounds.
  for (const std::size_t staging : {std::size_t{0}, std::size_t{4'097}})
    for (const int size : {2, 3, 7}) all.push_back({size, Algorithm::direct, RanksAre::processes, staging});
  all.push_back({3, Algorithm::direct, RanksAre::threads, 4'097});
  const auto over_hosts = [&](Algorithm algorithm, const Seating& hosts) {
    all.push_back(
        {static_cast<int>(hosts.size()), algorithm, RanksAre::processes, Settings().staging_bytes, hosts});
  };
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    for (const Seating& hosts : std::vector<Seating>{
             {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 1, 1, 2, 2, 2}, {3, 1, 0, 2, 1, 3, 3}})
      over_hosts(algorithm, hosts);
  over_hosts(Algorithm::one_shot, {0, 1});
  over_hosts(Algorithm::one_shot, {0, 1, 0});
  for (const Seating& hosts : std::vector<Seating>{{0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {2, 1, 0, 1, 2, 3}})
    over_hosts(Algorithm::doubling, hosts);
  over_hosts(Algorithm::tree, {0, 1, 2, 3});
  over_hosts(Algorithm::tree, {2, 1, 0, 1, 2});
  // Hierarchies, but for the last: its hosts are uneven.
  for (const Seating& hosts :
       std::vector<Seating>{{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 2, 0, 2}, {0, 0, 0, 1, 1, 1}, {0, 1, 1, 1}})
    over_hosts(Algorithm::automatic, hosts);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, ::testing::ValuesIn(cases()), name);

}  // namespace
}  // namespace rondo::test
