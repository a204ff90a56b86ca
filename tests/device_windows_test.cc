// Calls whose buffers lie in the devices of all ranks: results to the bit, the ledger, what falls back to the
// host, and what goes wrong while streams store to one another's memory.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/device_ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class DeviceWindows : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  void run(int size, const std::function<void(DeviceRank&)>& body) {
    run_device_ranks(GetParam(), size, body);
  }
};
INSTANTIATE_TEST_SUITE_P(, DeviceWindows, ::testing::Values(DeviceKind::stand_in, DeviceKind::cuda),
                         [](const auto& info) { return name_of(info.param); });

constexpr DataType f32 = DataType::f32;

// Sums of these are rounded, and another order of the ranks gives other bits.
double number(int rank, std::size_t i) {
  const auto r = static_cast<std::size_t>(rank);
  return static_cast<double>((i * 37 + r * 101) % 97 + 1) / static_cast<double>(3 + (i + r) % 5);
}
auto numbers_of(int rank) {
  return [rank](std::size_t i) { return number(rank, i); };
}

struct Row {
  std::uint64_t calls = 0, copied = 0;
  nlohmann::json sent, read;
};

// The one row of a collective in memory of that kind; its formula holds.
Row row_of(rondoComm_t comm, const std::string& collective, const std::string& memory) {
  std::size_t room = 0;
  expect_well(rondoLedgerJson(comm, nullptr, &room));
  std::string text(room, '\0');
  expect_well(rondoLedgerJson(comm, text.data(), &room));
  Row found;
  const auto ledger = nlohmann::json::parse(text.c_str());
  for (const auto& row : ledger["rows"]) {
    EXPECT_EQ(row["expected"], row["measured"]);
    EXPECT_EQ(row["padding"], 0);
    if (row["collective"] != collective || row["memory"] != memory) continue;
    EXPECT_EQ(found.calls, 0u) << "more than one row";
    found = {row["calls"].get<std::uint64_t>(),
             row["copied_to_host"].get<std::uint64_t>() + row["copied_to_device"].get<std::uint64_t>(),
             row["sent_to"], row["read_from"]};
  }
  return found;
}

// Every call on devices, and the same on the host: the same bits.
void expect_hosts_bits(DeviceRank& one, DataType type, rondoRedOp_t op, std::size_t count, bool in_place) {
  const auto ranks = static_cast<std::size_t>(one.size), r = static_cast<std::size_t>(one.rank);
  const auto kind = static_cast<rondoDataType_t>(type);
  const std::size_t all = count * ranks;
  DeviceBuffer send(one, type, all, size_of(type)), receive(one, type, all, 3 * size_of(type));
  TypedBuffer host(type, all), expected(type, all);
  send.fill(numbers_of(one.rank));
  host.fill(numbers_of(one.rank));
  DeviceBuffer& reduced = in_place ? send : receive;
  expect_well(rondoAllReduce(send.data(), reduced.data(), all, kind, op, one.comm, one.on()));
  expect_well(rondoAllReduce(host.data(), expected.data(), all, kind, op, one.comm, nullptr));
  reduced.expect_bytes(expected);
  send.fill(numbers_of(one.rank));
  std::byte* const scattered = in_place ? send.at(r * count) : receive.at(r * count);
  expect_well(rondoReduceScatter(send.data(), scattered, count, kind, op, one.comm, one.on()));
  TypedBuffer chunk(type, count);
  expect_well(rondoReduceScatter(host.data(), chunk.data(), count, kind, op, one.comm, nullptr));
  TypedBuffer& whole = in_place ? host : expected;
  std::memcpy(whole.at(r * count), chunk.data(), count * size_of(type));
  (in_place ? send : receive).expect_bytes(whole);
}

TEST_P(DeviceWindows, ReduceEveryTypeWithEveryOperatorToTheHostsBits) {
  for (int size = 1; size <= 5; ++size)
    run(size, [](DeviceRank& one) {
      for (const DataType type : all_types())
        for (int op = 0; op < 5; ++op)
          for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{1003}})
            expect_hosts_bits(one, type, static_cast<rondoRedOp_t>(op), count, (op + count) % 2 == 0);
      for (const bool in_place : {false, true}) expect_hosts_bits(one, f32, rondoSum, 40'001, in_place);
      rondoRedOp_t half;
      float factor = 0.3f;
      expect_well(
          rondoRedOpCreatePreMulSum(&half, &factor, rondoFloat32, rondoScalarHostImmediate, one.comm));
      expect_hosts_bits(one, f32, half, 1003, false);
      EXPECT_EQ(row_of(one.comm, "all-reduce", "device").calls, 10u * 5 * 3 + 3);
      EXPECT_EQ(row_of(one.comm, "all-reduce", "device").copied, 0u);
      EXPECT_EQ(row_of(one.comm, "all-reduce", "device, host staging").calls, 0u);
      EXPECT_EQ(row_of(one.comm, "reduce-scatter", "device").calls, 10u * 5 * 3 + 3);
    });
}

TEST_P(DeviceWindows, NothingIsMovedForNoElements) {
  run(3, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 8);
    data.fill(numbers_of(one.rank));
    expect_well(rondoAllReduce(data.data(), data.data(), 0, rondoFloat32, rondoSum, one.comm, one.on()));
    // Fewer elements than ranks: some ranks have no part.
    expect_well(rondoAllReduce(data.data(), data.data(), 1, rondoFloat32, rondoMax, one.comm, one.on()));
    data.expect([&](std::size_t i) {
      return static_cast<float>(i > 0 ? number(one.rank, i)
                                      : std::max({number(0, 0), number(1, 0), number(2, 0)}));
    });
  });
}

// Bytes from and to every rank are those of the same calls on the host's windows.
TEST_P(DeviceWindows, TheLedgerIsThatOfWindowsOnTheHost) {
  for (int size = 2; size <= 4; ++size)
    run(size, [](DeviceRank& one) {
      const auto ranks = static_cast<std::size_t>(one.size);
      const std::size_t count = 10'007;
      std::vector<std::size_t> counts(ranks, count);
      counts[0] = 9000;
      counts[1] = 0;
      const auto make_all = [&](void* send, void* receive, rondoStream_t stream) {
        const auto rank = static_cast<std::size_t>(one.rank);
        expect_well(rondoAllReduce(send, receive, count, rondoFloat32, rondoSum, one.comm, stream));
        expect_well(rondoAllGather(send, receive, count, rondoFloat32, one.comm, stream));
        expect_well(rondoAllGatherV(send, receive, counts.data(), rondoFloat32, one.comm, stream));
        expect_well(rondoReduceScatter(send, receive, count, rondoFloat32, rondoSum, one.comm, stream));
        expect_well(
            rondoReduceScatterV(send, receive, counts.data(), rondoFloat32, rondoSum, one.comm, stream));
        expect_well(rondoBroadcast(send, receive, count, rondoFloat32, 1, one.comm, stream));
        expect_well(rondoAlltoAll(send, receive, count, rondoFloat32, one.comm, stream));
        auto* const all = static_cast<float*>(receive);
        expect_well(rondoAllGather(all + rank * count, receive, count, rondoFloat32, one.comm, stream));
      };
      DeviceBuffer send(one, f32, ranks * count), receive(one, f32, ranks * count);
      send.fill(numbers_of(one.rank));
      make_all(send.data(), receive.data(), one.on());
      one.device.synchronise(one.stream);
      void *host_send = nullptr, *host_receive = nullptr;
      expect_well(rondoMemAlloc(&host_send, ranks * count * sizeof(float)));
      expect_well(rondoMemAlloc(&host_receive, ranks * count * sizeof(float)));
      make_all(host_send, host_receive, nullptr);
      for (const char* collective :
           {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all"}) {
        const Row device = row_of(one.comm, collective, "device"),
                  host = row_of(one.comm, collective, "host");
        EXPECT_GT(device.calls, 0u) << collective;
        EXPECT_EQ(device.calls, host.calls) << collective;
        EXPECT_EQ(device.sent, host.sent) << collective;
        EXPECT_EQ(device.read, host.read) << collective;
        EXPECT_EQ(device.copied, 0u) << collective;
      }
      expect_well(rondoMemFree(host_send));
      expect_well(rondoMemFree(host_receive));
    });
}

// More pieces than a block takes at a time, of sizes that blocks cut anywhere, some of them in place.
TEST_P(DeviceWindows, GroupsInOneAllocationGoTogether) {
  run(3, [](DeviceRank& one) {
    constexpr std::size_t members = 77, most = 700;
    const auto r = static_cast<std::size_t>(one.rank);
    const auto count_of = [](std::size_t member) { return 1 + member * 37 % most; };
    DeviceBuffer shards(one, f32, members * most), wholes(one, f32, members * 3 * most);
    shards.fill(numbers_of(one.rank));
    wholes.fill(numbers_of(one.rank));
    one.device.synchronise(one.stream);
    const auto in_place = [](std::size_t member) { return member % 5 == 0; };
    expect_well(rondoGroupStart());
    for (std::size_t member = 0; member < members; ++member) {
      const std::size_t count = count_of(member), whole = member * 3 * most;
      expect_well(rondoAllGather(in_place(member) ? wholes.at(whole + r * count) : shards.at(member * most),
                                 wholes.at(whole), count, rondoFloat32, one.comm, one.on()));
    }
    expect_well(rondoGroupEnd());
    wholes.expect([&](std::size_t i) {
      const std::size_t member = i / (3 * most), at = i % (3 * most), count = count_of(member);
      if (at >= 3 * count) return static_cast<float>(number(one.rank, i));
      const int from = static_cast<int>(at / count);
      return static_cast<float>(number(from, in_place(member) ? i : member * most + at % count));
    });
    EXPECT_EQ(row_of(one.comm, "all-gather", "device").calls, 1u);
  });
}

// A process with a communicator's ranks on several devices, as ncclCommInitAll makes them.
class RanksInOneProcess {
 public:
  explicit RanksInOneProcess(DeviceKind kind) : device_(make_device(kind)) {
    use_device(device_.get());
    size_ = std::min(device_->count(), 3);
    comms_.resize(static_cast<std::size_t>(size_));
    expect_well(rondoCommInitAll(comms_.data(), size_, nullptr));
    for (int rank = 0; rank < size_; ++rank) {
      device_->choose(rank);
      streams_.push_back(device_->make_stream());
      data_.push_back(std::make_unique<DeviceBuffer>(*device_, streams_.back(), f32, count));
    }
  }
  ~RanksInOneProcess() {
    for (int rank = 0; rank < size_; ++rank) {
      device_->choose(rank);
      expect_well(rondoCommDestroy(comms_[static_cast<std::size_t>(rank)]));
    }
    data_.clear();
    use_device(nullptr);
  }

  int size() const { return size_; }
  rondoComm_t comm(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }

  void reduce() {
    for (int rank = 0; rank < size_; ++rank) data(rank).fill(numbers_of(rank));
    expect_well(rondoGroupStart());
    for (int rank = 0; rank < size_; ++rank) {
      const auto on = static_cast<rondoStream_t>(streams_[static_cast<std::size_t>(rank)]);
      expect_well(rondoAllReduce(data(rank).data(), data(rank).data(), count, rondoFloat32, rondoMax,
                                 comm(rank), on));
    }
    expect_well(rondoGroupEnd());
    for (int rank = 0; rank < size_; ++rank)
      data(rank).expect([&](std::size_t i) {
        double most = 0;
        for (int other = 0; other < size_; ++other) most = std::max(most, number(other, i));
        return static_cast<float>(most);
      });
  }

 private:
  static constexpr std::size_t count = 20'011;

  DeviceBuffer& data(int rank) { return *data_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Device> device_;
  int size_ = 0;
  std::vector<rondoComm_t> comms_;
  std::vector<DeviceStream> streams_;
  std::vector<std::unique_ptr<DeviceBuffer>> data_;
};

TEST_P(DeviceWindows, RanksOfOneProcessReachOneAnothersDevices) {
  run_processes(1, [&](int) {
    RanksInOneProcess ranks(GetParam());
    for (int call = 0; call < 3; ++call) ranks.reduce();
    for (int rank = 0; rank < ranks.size(); ++rank)
      EXPECT_EQ(row_of(ranks.comm(rank), "all-reduce", "device").calls, 3u);
  });
}

// RONDO_TEST_NO_PEER_ACCESS is for the stand-in's driver.
TEST_P(DeviceWindows, DevicesWithoutAccessToOneAnotherGoByTheHost) {
  if (GetParam() != DeviceKind::cuda) GTEST_SKIP() << "the stand-in is one device";
  ::setenv("RONDO_TEST_NO_PEER_ACCESS", "1", 1);
  run_processes(1, [&](int) {
    RanksInOneProcess ranks(GetParam());
    for (int call = 0; call < 2; ++call) ranks.reduce();
    if (std::getenv("STAND_IN_DRIVER") == nullptr) return;
    EXPECT_EQ(row_of(ranks.comm(0), "all-reduce", "device, host staging").calls, 2u);
  });
  ::unsetenv("RONDO_TEST_NO_PEER_ACCESS");
}

TEST_P(DeviceWindows, PiecesInSeveralAllocationsGoByTheHost) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer first(one, f32, 500), second(one, f32, 700);
    first.fill(numbers_of(one.rank));
    second.fill(numbers_of(one.rank));
    expect_well(rondoGroupStart());
    for (DeviceBuffer* const data : {&first, &second})
      expect_well(
          rondoAllReduce(data->data(), data->data(), 500, rondoFloat32, rondoMax, one.comm, one.on()));
    expect_well(rondoGroupEnd());
    first.expect([](std::size_t i) { return static_cast<float>(std::max(number(0, i), number(1, i))); });
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device, host staging").calls, 1u);
  });
}

// One rank's memory is the host's: small, through staging areas, on windows, from a plain call or a group.
TEST_P(DeviceWindows, ARankOnTheHostBringsAllThere) {
  run(3, [](DeviceRank& one) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{3000}, std::size_t{60'000}})
      for (int odd = 0; odd < 3; ++odd)
        for (const bool windows : {false, true}) {
          const auto largest = [&](std::size_t i) {
            return static_cast<float>(std::max({number(0, i), number(1, i), number(2, i)}));
          };
          DeviceBuffer data(one, f32, count);
          TypedBuffer host(f32, count);
          void* window = nullptr;
          expect_well(rondoMemAlloc(&window, count * sizeof(float)));
          data.fill(numbers_of(one.rank));
          host.fill(numbers_of(one.rank));
          std::memcpy(window, host.data(), count * sizeof(float));
          if (one.rank != odd) {
            expect_well(
                rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoMax, one.comm, one.on()));
            data.expect(largest);
          } else {
            void* const mine = windows ? window : host.data();
            expect_well(rondoAllReduce(mine, mine, count, rondoFloat32, rondoMax, one.comm, nullptr));
            std::memcpy(host.data(), mine, count * sizeof(float));
            host.expect(largest);
          }
          expect_well(rondoMemFree(window));
        }
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device").calls, 0u);
    DeviceBuffer data(one, f32, 100);
    expect_well(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoMax, one.comm, one.on()));
    one.device.synchronise(one.stream);
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device").calls, 1u) << "the next one goes on windows again";
  });
}

TEST_P(DeviceWindows, CallsThatDifferAreRefusedAlsoWhereMemoryDiffers) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 100);
    TypedBuffer host(f32, 100);
    data.fill(numbers_of(one.rank));
    if (one.rank == 0) {
      expect_well(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoMax, one.comm, one.on()));
      one.device.synchronise(one.stream);
      EXPECT_EQ(one.async_error(), rondoInvalidUsage);
    } else {
      EXPECT_EQ(rondoAllReduce(host.data(), host.data(), 99, rondoFloat32, rondoMax, one.comm, nullptr),
                rondoInvalidUsage);
    }
    EXPECT_NE(std::string(rondoGetLastError(nullptr)).find("count differs"), std::string::npos);
    expect_well(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoMax, one.comm, one.on()));
    data.expect([](std::size_t i) { return static_cast<float>(std::max(number(0, i), number(1, i))); });
  });
}

void reduce(DeviceRank& one, DeviceBuffer& data, std::size_t count) {
  expect_well(rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoMax, one.comm, one.on()));
}

// The stand-in, and the driver made of it, open nothing at an address that is open; a GPU's driver may.
TEST_P(DeviceWindows, MemoryAtAnAddressThatIsOpenHereIsMappedOnceThatIsClosed) {
  ::setenv("RONDO_TEST_OPEN_ONCE", "1", 1);
  run(3, [](DeviceRank& one) {
    auto* const device = dynamic_cast<StandInDevice*>(&one.device);
    if (device != nullptr && one.rank == 1) device->open_each_address_once();
    constexpr std::uint64_t rounds = 20, most_tries = 50;
    std::uint64_t staged = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      DeviceBuffer data(one, f32, 3000);  // at the same address every time
      for (std::uint64_t tries = 0; row_of(one.comm, "all-reduce", "device").calls == round; ++tries) {
        ASSERT_LT(tries, most_tries) << "never on windows again";
        data.fill(numbers_of(one.rank));
        reduce(one, data, 3000);
        data.expect([](std::size_t i) {
          return static_cast<float>(std::max({number(0, i), number(1, i), number(2, i)}));
        });
      }
      staged = row_of(one.comm, "all-reduce", "device, host staging").calls;
    }
    if (device != nullptr) {
      EXPECT_GE(staged, 1u) << "what was freed is known to be so in the call that finds it open";
    }
  });
  ::unsetenv("RONDO_TEST_OPEN_ONCE");
}

// ---- what only a stand-in does when it is asked to ----

StandInDevice& stand_in(DeviceRank& one) { return dynamic_cast<StandInDevice&>(one.device); }

// Beyond those before.
void wait_for_a_job(const StandInDevice& device, int before) {
  while (device.jobs_begun() == before) std::this_thread::sleep_for(1ms);
}

TEST(StandInWindows, MemoryThatCannotBeMappedGoesByTheHost) {
  run_device_ranks(DeviceKind::stand_in, 3, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    for (int call = 0; call < 3; ++call) {
      data.fill(numbers_of(one.rank));
      one.device.synchronise(one.stream);
      if (one.rank == 1) stand_in(one).refuse(StandInDevice::Refused::open);
      reduce(one, data, 3000);
      data.expect([](std::size_t i) {
        return static_cast<float>(std::max({number(0, i), number(1, i), number(2, i)}));
      });
    }
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device, host staging").calls, 3u);
    EXPECT_EQ(stand_in(one).jobs_begun(), 2) << "the first call's copies; then it is known";
  });
}

TEST(StandInWindows, ASettingKeepsCallsOnTheHost) {
  ::setenv("RONDO_DEVICE_STAGING", "1", 1);
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    reduce(one, data, 3000);
    one.device.synchronise(one.stream);
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device, host staging").calls, 1u);
    EXPECT_EQ(stand_in(one).jobs_begun(), 0);
  });
  ::unsetenv("RONDO_DEVICE_STAGING");
}

TEST(StandInWindows, WhatPeersFreeIsClosedAndWhatTheyAllocateIsFresh) {
  run_device_ranks(DeviceKind::stand_in, 3, [](DeviceRank& one) {
    std::size_t least_open = 1000;
    for (int round = 0; round < 30; ++round) {
      DeviceBuffer data(one, f32, 3000);  // at the same address every time
      data.fill(numbers_of(one.rank + round));
      reduce(one, data, 3000);
      data.expect([&](std::size_t i) {
        return static_cast<float>(std::max({number(round, i), number(1 + round, i), number(2 + round, i)}));
      });
      EXPECT_EQ(row_of(one.comm, "all-reduce", "device").calls, static_cast<std::uint64_t>(round + 1));
      if (round >= 10) least_open = std::min(least_open, stand_in(one).open_count());
    }
    EXPECT_LE(least_open, 6u) << "two peers' of a call, and of some before it";
    expect_well(rondoCommDestroy(std::exchange(one.comm, nullptr)));
    EXPECT_EQ(stand_in(one).open_count(), 0u) << "peers may free theirs";
    EXPECT_EQ(stand_in(one).closed_while_waiting(), 0);
  });
}

TEST(StandInWindows, TheJobThatCopiesBackStartsFewBlocks) {
  constexpr std::size_t count = 600'000;  // enough for the most blocks
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    DeviceBuffer on_windows(one, f32, count), by_the_host(one, f32, count);
    for (DeviceBuffer* const data : {&on_windows, &by_the_host}) {
      data->fill(numbers_of(one.rank));
      one.device.synchronise(one.stream);
      if (data == &by_the_host) stand_in(one).refuse(StandInDevice::Refused::open);
      reduce(one, *data, count);
      EXPECT_LE(stand_in(one).blocks_of_last_job(), 16);
      data->expect([](std::size_t i) { return static_cast<float>(std::max(number(0, i), number(1, i))); });
    }
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device").calls, 1u);
    EXPECT_EQ(row_of(one.comm, "all-reduce", "device, host staging").calls, 1u);
  });
}

// As if the program were in the driver, which lets nobody else in: what is open needs nobody.
TEST(StandInWindows, MemoryThatIsOpenNeedsNoDriver) {
  run_device_ranks(
      DeviceKind::stand_in, 2,
      [](DeviceRank& one) {
        DeviceBuffer data(one, f32, 3000);
        reduce(one, data, 3000);
        one.device.synchronise(one.stream);
        if (one.rank == 0) std::this_thread::sleep_for(100ms);  // rank 1 is in the driver by then
        reduce(one, data, 3000);
        stand_in(one).hold_driver(one.rank == 1);
        one.device.synchronise(one.stream);
        EXPECT_EQ(one.async_error(), rondoSuccess);
        stand_in(one).hold_driver(false);
      },
      3000);
}

// The rank whose call has failed has its memory back: nothing may come there any more.
TEST(StandInWindows, NoPeerStoresAfterTheCallHasFailed) {
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const begun = new (shared) std::atomic<bool>{false};
  run_device_ranks(DeviceKind::stand_in, 2, [begun](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    data.fill(numbers_of(one.rank));
    one.device.synchronise(one.stream);
    if (one.rank == 1) stand_in(one).slow_jobs_down(500ms);
    reduce(one, data, 3000);
    if (one.rank == 0) {
      while (!*begun) std::this_thread::sleep_for(1ms);
      expect_well(rondoCommAbort(std::exchange(one.comm, nullptr)));
      one.device.synchronise(one.stream);
      const auto mine = [](std::size_t i) { return static_cast<float>(i % 7); };
      data.fill(mine);
      one.device.synchronise(one.stream);
      std::this_thread::sleep_for(600ms);
      data.expect(mine);
    } else {
      wait_for_a_job(stand_in(one), 0);
      *begun = true;
      one.device.synchronise(one.stream);
      EXPECT_EQ(one.async_error(), rondoAborted);
    }
  });
}

TEST(StandInWindows, AJobThatTakesTooLongEndsByTheDeadline) {
  run_device_ranks(
      DeviceKind::stand_in, 2,
      [](DeviceRank& one) {
        DeviceBuffer data(one, f32, 3000);
        one.device.synchronise(one.stream);
        if (one.rank == 1) stand_in(one).slow_jobs_down(1200ms);
        const auto start = Clock::now();
        reduce(one, data, 3000);
        one.device.synchronise(one.stream);
        EXPECT_LT(Clock::now() - start, 5s);
        EXPECT_EQ(one.async_error(), rondoTimeout);
      },
      400);
}

TEST(StandInWindows, APeerThatDiesInItsJobEndsTheCall) {
  rondoUniqueId id;
  expect_well(rondoGetUniqueId(&id));
  run_processes(3, [&](int rank) {
    StandInDevice device;
    use_device(&device);
    DeviceRank one{device, nullptr, rank, 3, device.make_stream()};
    expect_well(rondoCommInitRank(&one.comm, 3, id, rank));
    DeviceBuffer data(one, f32, 3000);
    reduce(one, data, 3000);
    one.device.synchronise(one.stream);
    if (rank == 2) device.slow_jobs_down(10s);
    reduce(one, data, 3000);
    if (rank == 2) {
      wait_for_a_job(device, 1);
      ::_exit(child_ok);
    }
    const auto start = Clock::now();
    one.device.synchronise(one.stream);
    EXPECT_LT(Clock::now() - start, 5s);
    EXPECT_EQ(one.async_error(), rondoRemoteError);
    expect_well(rondoCommDestroy(one.comm));
    use_device(nullptr);
  });
}

TEST(StandInWindows, ADeviceThatFailsInItsJobEndsTheCallOnAllRanks) {
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    stand_in(one).slow_jobs_down(500ms);
    if (one.rank == 1) {
      reduce(one, data, 3000);
      wait_for_a_job(stand_in(one), 0);
      stand_in(one).break_down();
      const auto start = Clock::now();
      while (one.async_error() == rondoSuccess && Clock::now() - start < 5s) std::this_thread::sleep_for(1ms);
      EXPECT_NE(one.async_error(), rondoSuccess);
    } else {
      reduce(one, data, 3000);
      one.device.synchronise(one.stream);
      EXPECT_NE(one.async_error(), rondoSuccess);
    }
  });
}

TEST(StandInWindows, AJobThatIsRefusedEndsTheCallOnAllRanks) {
  run_device_ranks(DeviceKind::stand_in, 3, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    if (one.rank == 1) stand_in(one).refuse(StandInDevice::Refused::job);
    const rondoResult_t result =
        rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on());
    EXPECT_EQ(result, one.rank == 1 ? rondoUnhandledCudaError : rondoSuccess);
    stand_in(one).refuse(StandInDevice::Refused::nothing);
    one.device.synchronise(one.stream);
    EXPECT_EQ(one.async_error(), rondoUnhandledCudaError);
  });
}

}  // namespace
}  // namespace rondo::test
