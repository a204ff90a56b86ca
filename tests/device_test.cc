// Calls on a device's memory, through the C interface: results, order on streams, memory of several kinds,
// what goes wrong, and the ledger.
#include <dirent.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "tests/device_ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class OnDevice : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  void run(int size, const std::function<void(DeviceRank&)>& body, std::int64_t timeout_ms = 60'000) {
    run_device_ranks(GetParam(), size, body, timeout_ms);
  }
};

INSTANTIATE_TEST_SUITE_P(, OnDevice,
                         ::testing::Values(DeviceKind::stand_in, DeviceKind::without_jobs, DeviceKind::cuda),
                         [](const auto& info) { return name_of(info.param); });

// What rank `rank` has at `i`: small, so that sums are exact in every type.
double number(int rank, std::size_t i) {
  return static_cast<double>((i + 2 * static_cast<std::size_t>(rank)) % 11);
}
double sum_at(int size, std::size_t i) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += number(rank, i);
  return sum;
}
auto numbers_of(int rank) {
  return [rank](std::size_t i) { return number(rank, i); };
}
auto sums_of(int size) {
  return [size](std::size_t i) { return sum_at(size, i); };
}

constexpr DataType f32 = DataType::f32;

TEST_P(OnDevice, EveryCallDoesItsPart) {
  for (int size = 1; size <= 5; ++size)
    run(size, [](DeviceRank& one) {
      const int rank = one.rank, last = one.size - 1;
      const auto ranks = static_cast<std::size_t>(one.size), r = static_cast<std::size_t>(rank);
      const std::size_t count = 1003, all = count * ranks;
      DeviceBuffer send(one, f32, all), receive(one, f32, all), small(one, f32, count);
      send.fill(numbers_of(rank));

      expect_well(
          rondoAllReduce(send.data(), receive.data(), all, rondoFloat32, rondoSum, one.comm, one.on()));
      receive.expect(sums_of(one.size));
      expect_well(rondoAllGather(send.data(), receive.data(), count, rondoFloat32, one.comm, one.on()));
      receive.expect([&](std::size_t i) { return number(static_cast<int>(i / count), i % count); });
      expect_well(
          rondoReduceScatter(send.data(), small.data(), count, rondoFloat32, rondoSum, one.comm, one.on()));
      small.expect([&](std::size_t i) { return sum_at(one.size, r * count + i); });
      expect_well(rondoBroadcast(send.data(), small.data(), count, rondoFloat32, last, one.comm, one.on()));
      small.expect(numbers_of(last));
      small.fill(numbers_of(7));
      expect_well(rondoReduce(send.data(), rank == last ? small.data() : nullptr, count, rondoFloat32,
                              rondoSum, last, one.comm, one.on()));
      small.expect([&](std::size_t i) { return rank == last ? sum_at(one.size, i) : number(7, i); });
      expect_well(rondoAlltoAll(send.data(), receive.data(), count, rondoFloat32, one.comm, one.on()));
      receive.expect(
          [&](std::size_t i) { return number(static_cast<int>(i / count), r * count + i % count); });
      receive.fill(numbers_of(9));
      expect_well(rondoGather(send.data(), rank == last ? receive.data() : nullptr, count, rondoFloat32, last,
                              one.comm, one.on()));
      receive.expect([&](std::size_t i) {
        return rank == last ? number(static_cast<int>(i / count), i % count) : number(9, i);
      });
      expect_well(rondoScatter(rank == 0 ? send.data() : nullptr, small.data(), count, rondoFloat32, 0,
                               one.comm, one.on()));
      small.expect([&](std::size_t i) { return number(0, r * count + i); });

      std::vector<std::size_t> counts(ranks);
      for (std::size_t from = 0; from < ranks; ++from) counts[from] = from % 2 == 0 ? 17 + from : 0;
      const auto before = [&](std::size_t to) {
        return std::accumulate(counts.begin(), counts.begin() + static_cast<long>(to), std::size_t{0});
      };
      receive.fill(numbers_of(9));
      expect_well(
          rondoAllGatherV(send.data(), receive.data(), counts.data(), rondoFloat32, one.comm, one.on()));
      receive.expect([&](std::size_t i) {
        std::size_t from = 0;
        while (from < ranks && i >= before(from + 1)) ++from;
        return from == ranks ? number(9, i) : number(static_cast<int>(from), i - before(from));
      });
      small.fill(numbers_of(9));
      expect_well(rondoReduceScatterV(send.data(), small.data(), counts.data(), rondoFloat32, rondoSum,
                                      one.comm, one.on()));
      small.expect(
          [&](std::size_t i) { return i < counts[r] ? sum_at(one.size, before(r) + i) : number(9, i); });

      expect_well(rondoGroupStart());
      expect_well(rondoSend(send.data(), count, rondoFloat32, (rank + 1) % one.size, one.comm, one.on()));
      expect_well(rondoRecv(small.data(), count, rondoFloat32, (rank + last) % one.size, one.comm, one.on()));
      expect_well(rondoGroupEnd());
      small.expect(numbers_of((rank + last) % one.size));
      expect_well(rondoBarrier(one.comm, one.on()));
      one.device.synchronise(one.stream);
      EXPECT_EQ(one.async_error(), rondoSuccess);
      send.expect(numbers_of(rank));
    });
}

TEST_P(OnDevice, AllReducesEveryTypeInPlaceOrNotFromAnyPlace) {
  run(3, [](DeviceRank& one) {
    for (const DataType type : all_types())
      for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{40'001}})
        for (const bool in_place : {false, true}) {
          DeviceBuffer send(one, type, count, size_of(type)), receive(one, type, count, 3 * size_of(type));
          send.fill(numbers_of(one.rank));
          DeviceBuffer& result = in_place ? send : receive;
          expect_well(rondoAllReduce(send.data(), result.data(), count, static_cast<rondoDataType_t>(type),
                                     rondoSum, one.comm, one.on()));
          result.expect(sums_of(one.size));
          if (!in_place) send.expect(numbers_of(one.rank));
        }
  });
}

TEST_P(OnDevice, GathersAndScattersInPlace) {
  run(4, [](DeviceRank& one) {
    const std::size_t count = 10'007, r = static_cast<std::size_t>(one.rank);
    DeviceBuffer all(one, f32, 4 * count);
    all.fill(numbers_of(one.rank));
    expect_well(rondoAllGather(all.at(r * count), all.data(), count, rondoFloat32, one.comm, one.on()));
    all.expect([&](std::size_t i) { return number(static_cast<int>(i / count), i); });
    all.fill(numbers_of(one.rank));
    expect_well(
        rondoReduceScatter(all.data(), all.at(r * count), count, rondoFloat32, rondoSum, one.comm, one.on()));
    all.expect([&](std::size_t i) { return i / count == r ? sum_at(4, i) : number(one.rank, i); });
  });
}

// Memory on the host or the device, by rank and by buffer: nobody else needs to know.
TEST_P(OnDevice, RanksAndBuffersMayDifferInTheirMemory) {
  run(4, [](DeviceRank& one) {
    for (const std::size_t count : {std::size_t{9}, std::size_t{50'000}})
      for (int round = 0; round < 4; ++round) {
        const int place = (one.rank + round) % 4;
        DeviceBuffer device_send(one, f32, count), device_receive(one, f32, count);
        TypedBuffer host_send(f32, count), host_receive(f32, count);
        device_send.fill(numbers_of(one.rank));
        host_send.fill(numbers_of(one.rank));
        one.device.synchronise(one.stream);
        const bool sends_host = place % 2 == 0, receives_host = place / 2 == 0;
        // Before the device's stream comes to it: what the host's memory is by then counts.
        expect_well(rondoAllReduce(sends_host ? host_send.data() : device_send.data(),
                                   receives_host ? host_receive.data() : device_receive.data(), count,
                                   rondoFloat32, rondoSum, one.comm, round % 2 == 0 ? one.on() : nullptr));
        one.device.synchronise(round % 2 == 0 ? one.stream : nullptr);
        if (receives_host)
          host_receive.expect(sums_of(4));
        else
          device_receive.expect(sums_of(4));
      }
    EXPECT_EQ(one.async_error(), rondoSuccess);
  });
}

TEST_P(OnDevice, GroupsTravelTogetherWhateverTheirMemory) {
  run(3, [](DeviceRank& one) {
    const std::size_t counts[] = {5, 4000, 129, 70'000};
    std::vector<std::unique_ptr<DeviceBuffer>> shards, wholes;
    TypedBuffer host_shard(f32, 129), host_whole(f32, 3 * 129);
    host_shard.fill(numbers_of(one.rank));
    for (const std::size_t count : counts) {
      // Other ranks have theirs in another order in memory.
      const auto make = [&](std::vector<std::unique_ptr<DeviceBuffer>>& to, std::size_t size) {
        to.push_back(std::make_unique<DeviceBuffer>(one, f32, size));
      };
      if (one.rank == 0) make(wholes, 3 * count);
      make(shards, count);
      if (one.rank != 0) make(wholes, 3 * count);
      shards.back()->fill(numbers_of(one.rank));
    }
    expect_well(rondoGroupStart());
    for (std::size_t i = 0; i < 4; ++i) {
      const bool host = i == 2 && one.rank == 1;
      expect_well(rondoAllGather(host ? host_shard.data() : shards[i]->data(),
                                 host ? host_whole.data() : wholes[i]->data(), counts[i], rondoFloat32,
                                 one.comm, one.on()));
    }
    expect_well(rondoGroupEnd());
    one.device.synchronise(one.stream);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto gathered = [&](std::size_t at) {
        return number(static_cast<int>(at / counts[i]), at % counts[i]);
      };
      if (i == 2 && one.rank == 1)
        host_whole.expect(gathered);
      else
        wholes[i]->expect(gathered);
    }
  });
}

// Holds a stream until open() is called.
class Gate {
 public:
  explicit Gate(DeviceRank& one) : device_(one.device), stream_(one.stream), word_(4096) {
    device_.pin(stream_, word_);
    device_.wait_for_word(stream_, reinterpret_cast<std::uint32_t*>(word_.data()), 1);
  }
  ~Gate() {
    open();
    device_.synchronise(stream_);
    device_.unpin(stream_, word_.data());
  }
  void open() { __atomic_store_n(reinterpret_cast<std::uint32_t*>(word_.data()), 1, __ATOMIC_RELEASE); }

 private:
  Device& device_;
  DeviceStream stream_;
  std::vector<std::byte> word_;
};

TEST_P(OnDevice, CallsWaitForTheStreamAndNotTheirCaller) {
  run(2, [](DeviceRank& one) {
    const std::size_t count = 20'000;
    DeviceBuffer data(one, f32, count), source(one, f32, count), after(one, f32, count);
    source.fill(numbers_of(one.rank));
    one.device.synchronise(one.stream);
    Gate gate(one);
    // The input is written by the stream, after the call was made; the output is read by the stream.
    one.device.copy(one.stream, data.data(), source.data(), count * sizeof(float));
    const auto start = Clock::now();
    for (int call = 0; call < 3; ++call)
      expect_well(
          rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoMax, one.comm, one.on()));
    one.device.copy(one.stream, after.data(), data.data(), count * sizeof(float));
    EXPECT_LT(Clock::now() - start, 5s);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(one.async_error(), rondoSuccess);
    gate.open();
    after.expect([](std::size_t i) { return std::max(number(0, i), number(1, i)); });
  });
}

TEST_P(OnDevice, ManyRoundsOnOneStreamStayInOrder) {
  run(3, [](DeviceRank& one) {
    const std::size_t most = 30'000;
    DeviceBuffer data(one, f32, most), ones(one, f32, most);
    ones.fill([](std::size_t) { return 1; });
    const auto open_descriptors = [] {
      std::size_t count = 0;
      DIR* const folder = ::opendir("/proc/self/fd");
      while (::readdir(folder) != nullptr) ++count;
      ::closedir(folder);
      return count;
    };
    const std::size_t descriptors = open_descriptors();
    for (int round = 0; round < 200; ++round) {
      const std::size_t count = round % 2 == 0 ? most : 1 + static_cast<std::size_t>(round) * 37;
      one.device.copy(one.stream, data.data(), ones.data(), count * sizeof(float));
      for (int i = 0; i < 3; ++i)
        expect_well(
            rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoSum, one.comm, one.on()));
      if (round % 20 == 19) one.device.synchronise(one.stream);
    }
    one.device.synchronise(one.stream);
    // At most so many calls are at work at a time, of 600 in all.
    constexpr std::size_t most_at_work = 20 * 3;
    EXPECT_LE(open_descriptors(), descriptors + most_at_work + 4) << "pinned blocks are used again";
    data.expect([&](std::size_t i) { return i < 1 + 199 * 37 || i < most ? 27 : 0; });
  });
}

// Memory that is freed and allocated anew between calls, larger and smaller, at used addresses, and two
// buffers in one allocation.
TEST_P(OnDevice, GathersFromMemoryThatComesAndGoes) {
  run(2, [](DeviceRank& one) {
    const std::size_t counts[] = {1000, 30'000, 7, 200'000};
    for (int round = 0; round < 200; ++round) {
      const std::size_t count = counts[round % 4];
      DeviceBuffer both(one, f32, 3 * count);
      both.fill([&](std::size_t i) { return number(one.rank + round, i); });
      expect_well(rondoAllGather(both.data(), both.at(count), count, rondoFloat32, one.comm, one.on()));
      both.expect([&](std::size_t i) {
        return i < count ? number(one.rank + round, i)
                         : number(static_cast<int>(i / count) - 1 + round, i % count);
      });
    }
    EXPECT_EQ(one.async_error(), rondoSuccess);
  });
}

TEST_P(OnDevice, CommunicatorsInOppositeOrderOnTwoStreams) {
  run(2, [](DeviceRank& one) {
    rondoComm_t other = nullptr;
    expect_well(rondoCommSplit(one.comm, 0, one.rank, &other, nullptr));
    const DeviceStream second = one.device.make_stream();
    DeviceBuffer first_data(one, f32, 5000), second_data(one.device, second, f32, 5000);
    first_data.fill(numbers_of(one.rank));
    second_data.fill(numbers_of(one.rank + 1));
    const auto first = [&] {
      expect_well(rondoAllReduce(first_data.data(), first_data.data(), 5000, rondoFloat32, rondoSum, one.comm,
                                 one.on()));
    };
    const auto then = [&] {
      expect_well(rondoAllReduce(second_data.data(), second_data.data(), 5000, rondoFloat32, rondoSum, other,
                                 static_cast<rondoStream_t>(second)));
    };
    if (one.rank == 0) first(), then();
    if (one.rank == 1) then(), first();
    first_data.expect(sums_of(2));
    second_data.expect([](std::size_t i) { return number(1, i) + number(2, i); });
    expect_well(rondoCommDestroy(other));
  });
}

TEST_P(OnDevice, CallsThatDifferAreToldOnceAndTheStreamGoesOn) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 100);
    const std::size_t count = one.rank == 0 ? 100 : 99;
    expect_well(rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoSum, one.comm, one.on()));
    one.device.synchronise(one.stream);
    EXPECT_EQ(one.async_error(), rondoInvalidUsage);
    EXPECT_NE(std::string(rondoGetLastError(nullptr)).find("count differs"), std::string::npos);
    EXPECT_EQ(one.async_error(), rondoSuccess);
    data.fill(numbers_of(one.rank));
    expect_well(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoSum, one.comm, one.on()));
    data.expect(sums_of(2));
  });
}

// The stream goes on, soon, and the error is this.
void expect_end(DeviceRank& one, rondoResult_t error) {
  const auto start = Clock::now();
  one.device.synchronise(one.stream);
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_EQ(one.async_error(), error) << rondoGetLastError(nullptr);
}

TEST_P(OnDevice, ADeadlineEndsACallThatOthersDoNotMake) {
  run(
      2,
      [](DeviceRank& one) {
        DeviceBuffer data(one, f32, 3000);
        if (one.rank == 0) {
          expect_well(
              rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
          expect_end(one, rondoTimeout);
        } else {
          while (one.async_error() == rondoSuccess) std::this_thread::sleep_for(10ms);
        }
      },
      300);
}

TEST_P(OnDevice, AnAbortEndsACall) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    if (one.rank == 0) {
      expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
      expect_end(one, rondoAborted);
      EXPECT_EQ(rondoBarrier(one.comm, one.on()), rondoAborted);
    } else {
      std::this_thread::sleep_for(50ms);
      expect_well(rondoCommAbort(std::exchange(one.comm, nullptr)));
    }
  });
}

// Also while its own stream has not come to the call.
TEST_P(OnDevice, AnAbortEndsACallThatTheStreamHasNotReached) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    Gate gate(one);
    expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
    expect_well(rondoCommAbort(std::exchange(one.comm, nullptr)));
    gate.open();
    one.device.synchronise(one.stream);
  });
}

TEST_P(OnDevice, ADeadPeerEndsACall) {
  const DeviceKind kind = GetParam();
  rondoUniqueId id;
  expect_well(rondoGetUniqueId(&id));
  run_processes(3, [&](int rank) {
    const auto device = make_device(kind);
    use_device(device.get());
    DeviceRank one{*device, nullptr, rank, 3, device->make_stream()};
    expect_well(rondoCommInitRank(&one.comm, 3, id, rank));
    DeviceBuffer data(one, f32, 3000);
    data.fill(numbers_of(rank));
    expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
    data.expect(sums_of(3));
    if (rank == 2) ::_exit(child_ok);
    expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
    expect_end(one, rondoRemoteError);
    expect_well(rondoCommDestroy(one.comm));
    use_device(nullptr);
  });
}

nlohmann::json ledger_rows(rondoComm_t comm) {
  std::size_t room = 0;
  expect_well(rondoLedgerJson(comm, nullptr, &room));
  std::string text(room, '\0');
  expect_well(rondoLedgerJson(comm, text.data(), &room));
  return nlohmann::json::parse(text.c_str())["rows"];
}

TEST(StandIn, TheLedgerCountsPayloadOnceAndCopiesBeside) {
  for (int size = 2; size <= 4; ++size)
    run_device_ranks(DeviceKind::without_jobs, size, [](DeviceRank& one) {
      const std::size_t count = 12'000, bytes = count * sizeof(float);
      const auto ranks = static_cast<std::size_t>(one.size);
      DeviceBuffer data(one, f32, count), all(one, f32, count * ranks);
      TypedBuffer host(f32, count);
      expect_well(
          rondoAllReduce(data.data(), data.data(), count, rondoFloat32, rondoSum, one.comm, one.on()));
      expect_well(rondoAllGather(data.data(), all.data(), count, rondoFloat32, one.comm, one.on()));
      expect_well(
          rondoAllReduce(data.data(), host.data(), count, rondoFloat32, rondoSum, one.comm, one.on()));
      one.device.synchronise(one.stream);
      expect_well(rondoAllReduce(host.data(), host.data(), count, rondoFloat32, rondoSum, one.comm, nullptr));
      std::uint64_t device_payload = 0, host_payload = 0, down = 0, up = 0, gathered = 0;
      for (const auto& row : ledger_rows(one.comm)) {
        EXPECT_EQ(row["expected"], row["measured"]);
        EXPECT_EQ(row["padding"], 0);
        const bool on_device = row["memory"] == "device, host staging";
        EXPECT_TRUE(on_device || row["memory"] == "host");
        down += row["copied_to_host"].get<std::uint64_t>();
        up += row["copied_to_device"].get<std::uint64_t>();
        const auto payload = row["measured"].get<std::uint64_t>();
        if (row["collective"] == "all-gather")
          gathered += payload;
        else
          (on_device ? device_payload : host_payload) += payload;
      }
      EXPECT_EQ(down, 3 * bytes);
      EXPECT_EQ(up, bytes + bytes * ranks);
      EXPECT_EQ(gathered, bytes * (ranks - 1));
      EXPECT_EQ(device_payload, 2 * host_payload) << "two calls, as the host's one";
    });
}

// Several ranks of one process, one after another on one stream: each waits for the others' inputs.
TEST_P(OnDevice, RanksOfOneProcessShareAStreamInAGroup) {
  const DeviceKind kind = GetParam();
  run_processes(1, [&](int) {
    const auto device = make_device(kind);
    use_device(device.get());
    rondoComm_t comms[3];
    expect_well(rondoCommInitAll(comms, 3, nullptr));
    const DeviceStream stream = device->make_stream();
    std::vector<std::unique_ptr<DeviceBuffer>> data;
    for (int rank = 0; rank < 3; ++rank) {
      data.push_back(std::make_unique<DeviceBuffer>(*device, stream, f32, 5000));
      data.back()->fill(numbers_of(rank));
    }
    expect_well(rondoGroupStart());
    for (std::size_t rank = 0; rank < 3; ++rank)
      expect_well(rondoAllReduce(data[rank]->data(), data[rank]->data(), 5000, rondoFloat32, rondoSum,
                                 comms[rank], static_cast<rondoStream_t>(stream)));
    expect_well(rondoGroupEnd());
    for (const auto& one : data) one->expect(sums_of(3));
    for (rondoComm_t comm : comms) expect_well(rondoCommDestroy(comm));
    data.clear();
    use_device(nullptr);
  });
}

// The driver is there, and nobody has called it: no pointer is its own, and it is not started.
TEST_P(OnDevice, AProgramThatDoesNotUseItHasHostMemoryOnly) {
  const DeviceKind kind = GetParam();
  rondoUniqueId id;
  expect_well(rondoGetUniqueId(&id));
  run_processes(2, [&](int rank) {
    const auto device = make_device(kind);
    use_device(device.get());
    rondoComm_t comm = nullptr;
    expect_well(rondoCommInitRank(&comm, 2, id, rank));
    TypedBuffer data(f32, 5000);
    data.fill(numbers_of(rank));
    expect_well(rondoAllReduce(data.data(), data.data(), 5000, rondoFloat32, rondoSum, comm, nullptr));
    data.expect(sums_of(2));
    expect_well(rondoCommDestroy(comm));
    use_device(nullptr);
  });
}

// CUDA's current context is a thread's own.
TEST_P(OnDevice, AnyThreadMayCall) {
  run(2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 5000);
    data.fill(numbers_of(one.rank));
    std::thread([&] {
      expect_well(rondoAllReduce(data.data(), data.data(), 5000, rondoFloat32, rondoSum, one.comm, one.on()));
    }).join();
    data.expect(sums_of(2));
    if (GetParam() == DeviceKind::without_jobs) return;
    EXPECT_EQ(ledger_rows(one.comm)[0]["memory"], "device") << "and goes no other way for that";
  });
}

// RONDO_TEST_NO_BINARY is for the stand-in's driver: a GPU loads the kernel.
TEST_P(OnDevice, WhereTheKernelDoesNotLoadCallsGoByTheHost) {
  if (GetParam() != DeviceKind::cuda) GTEST_SKIP() << "only CUDA loads kernels";
  ::setenv("RONDO_TEST_NO_BINARY", "1", 1);
  run(2, [](DeviceRank& one) {
    for (int call = 0; call < 2; ++call) {
      DeviceBuffer data(one, f32, 5000);
      data.fill(numbers_of(one.rank));
      expect_well(rondoAllReduce(data.data(), data.data(), 5000, rondoFloat32, rondoSum, one.comm, one.on()));
      data.expect(sums_of(2));
    }
  });
  ::unsetenv("RONDO_TEST_NO_BINARY");
}

TEST_P(OnDevice, DeviceMemoryOnAHostStreamIsRefused) {
  run(1, [](DeviceRank& one) {
    rondoStream_t host = nullptr;
    expect_well(rondoStreamCreate(&host));
    DeviceBuffer data(one, f32, 10);
    EXPECT_EQ(rondoAllReduce(data.data(), data.data(), 10, rondoFloat32, rondoSum, one.comm, host),
              rondoInvalidArgument);
    EXPECT_NE(std::string(rondoGetLastError(nullptr)).find("device memory"), std::string::npos);
    expect_well(rondoStreamDestroy(host));
    EXPECT_EQ(rondoBarrier(one.comm, host), rondoInvalidArgument)
        << "a stream that is no more is none of CUDA's";
  });
}

// ---- what only a stand-in does when it is asked to ----

StandInDevice& stand_in(DeviceRank& one) { return dynamic_cast<StandInDevice&>(one.device); }

TEST(StandIn, ARecordedStreamIsRefused) {
  run_device_ranks(DeviceKind::stand_in, 1, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 10);
    stand_in(one).record(true);
    EXPECT_EQ(rondoAllReduce(data.data(), data.data(), 10, rondoFloat32, rondoSum, one.comm, one.on()),
              rondoInvalidUsage);
    stand_in(one).record(false);
    expect_well(rondoAllReduce(data.data(), data.data(), 10, rondoFloat32, rondoSum, one.comm, one.on()));
    one.device.synchronise(one.stream);
  });
}

// CUDA's streams lie in the heap, which a program at a fixed address has far below 4 GiB.
TEST(StandIn, StreamsMayHaveSmallAddresses) {
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    for (const std::uintptr_t address :
         {std::uintptr_t{0x18812440}, std::uintptr_t{0x10}, std::uintptr_t{2}}) {
      const auto stream = reinterpret_cast<DeviceStream>(address);
      stand_in(one).make_stream(stream);
      DeviceBuffer data(one.device, stream, f32, 1000);
      data.fill(numbers_of(one.rank));
      expect_well(rondoAllReduce(data.data(), data.data(), 1000, rondoFloat32, rondoSum, one.comm,
                                 static_cast<rondoStream_t>(stream)));
      data.expect(sums_of(2));
    }
  });
}

// Ranks of one process, each with a context whose default stream its call goes to: their thread stands in the
// last one's when the group ends.
TEST(StandIn, AGroupTakesEachCallsOwnDefaultStream) {
  run_processes(1, [&](int) {
    StandInDevice device;
    use_device(&device);
    rondoComm_t comms[3];
    expect_well(rondoCommInitAll(comms, 3, nullptr));
    int contexts[3];
    std::atomic<bool> open{false};
    std::vector<std::unique_ptr<DeviceBuffer>> data, source;
    for (int rank = 0; rank < 3; ++rank) {
      device.enter(&contexts[rank]);
      data.push_back(std::make_unique<DeviceBuffer>(device, nullptr, f32, 5000));
      source.push_back(std::make_unique<DeviceBuffer>(device, nullptr, f32, 5000));
      source.back()->fill(numbers_of(rank));
      device.put(nullptr, [&] {
        while (!open) std::this_thread::sleep_for(1ms);
      });
      device.copy(nullptr, data.back()->data(), source.back()->data(), 5000 * sizeof(float));
      device.leave();
    }
    expect_well(rondoGroupStart());
    for (std::size_t rank = 0; rank < 3; ++rank) {
      device.enter(&contexts[rank]);
      expect_well(rondoAllReduce(data[rank]->data(), data[rank]->data(), 5000, rondoFloat32, rondoSum,
                                 comms[rank], nullptr));
      device.leave();
    }
    expect_well(rondoGroupEnd());
    std::this_thread::sleep_for(50ms);
    open = true;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      device.enter(&contexts[rank]);
      data[rank]->expect(sums_of(3));
      source[rank] = nullptr;
      data[rank] = nullptr;
      device.leave();
    }
    for (rondoComm_t comm : comms) expect_well(rondoCommDestroy(comm));
    use_device(nullptr);
  });
}

TEST(StandIn, ARefusedCopyEndsTheCallOnAllRanks) {
  run_device_ranks(DeviceKind::without_jobs, 3, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    if (one.rank == 1) stand_in(one).refuse(StandInDevice::Refused::copy);
    const rondoResult_t result =
        rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on());
    EXPECT_EQ(result, one.rank == 1 ? rondoUnhandledCudaError : rondoSuccess);
    if (one.rank == 1) {
      while (one.async_error() == rondoSuccess) std::this_thread::sleep_for(1ms);
      stand_in(one).refuse(StandInDevice::Refused::nothing);
    }
    expect_end(one, rondoUnhandledCudaError);
  });
}

// By then the call is done, and its outputs are nowhere.
TEST(StandIn, ARefusalAfterTheCallsStartEndsTheCommunicator) {
  run_device_ranks(DeviceKind::without_jobs, 3, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    if (one.rank == 1) stand_in(one).refuse(StandInDevice::Refused::wait_late);
    const rondoResult_t result =
        rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on());
    EXPECT_EQ(result, one.rank == 1 ? rondoUnhandledCudaError : rondoSuccess);
    const auto start = Clock::now();
    while (one.async_error() == rondoSuccess && Clock::now() - start < 5s) std::this_thread::sleep_for(1ms);
    expect_end(one, rondoUnhandledCudaError);
    EXPECT_NE(std::string(rondoGetLastError(nullptr)).find("a device's stream"), std::string::npos)
        << rondoGetLastError(nullptr);
  });
}

TEST(StandIn, ADeviceThatFailsEndsTheCallOnAllRanks) {
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    DeviceBuffer data(one, f32, 3000);
    one.device.synchronise(one.stream);
    const auto reduce = [&] {
      expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
    };
    if (one.rank == 1) {
      // Nothing that stands on the stream is run: the inputs never come.
      stand_in(one).put(one.stream, [&] { stand_in(one).break_down(); });
      std::this_thread::sleep_for(20ms);
      EXPECT_EQ(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()),
                rondoUnhandledCudaError);
    } else {
      reduce();
      expect_end(one, rondoRemoteError);
    }
  });
}

// What a refused call leaves behind is unpinned some time, and not while a stream waits for a call.
TEST(StandIn, NothingIsUnpinnedWhileACallIsAtWork) {
  run_device_ranks(DeviceKind::stand_in, 2, [](DeviceRank& one) {
    rondoComm_t other = nullptr;
    expect_well(rondoCommSplit(one.comm, 0, one.rank, &other, nullptr));
    const DeviceStream second = one.device.make_stream();
    DeviceBuffer data(one, f32, 3000), more(one.device, second, f32, 3000);
    const auto reduce = [&] {
      expect_well(rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
    };
    const auto reduce_more = [&](std::size_t count) {
      expect_well(rondoAllReduce(more.data(), more.data(), count, rondoFloat32, rondoSum, other,
                                 static_cast<rondoStream_t>(second)));
      one.device.synchronise(second);
      std::this_thread::sleep_for(50ms);  // a call is at work until the device's own thread has let it go
    };
    one.device.synchronise(one.stream);
    if (one.rank == 0) reduce();
    reduce_more(one.rank == 0 ? 3000 : 2999);
    const std::size_t before = stand_in(one).pinned_count();
    reduce_more(3000);
    if (one.rank == 0) {
      EXPECT_EQ(stand_in(one).pinned_count(), before + 1);
    }
    expect_well(rondoBarrier(other, nullptr));
    if (one.rank == 1) reduce();
    one.device.synchronise(one.stream);
    const std::size_t after = stand_in(one).pinned_count();
    std::this_thread::sleep_for(50ms);
    reduce_more(3000);
    if (one.rank == 0) {
      EXPECT_EQ(stand_in(one).pinned_count(), after - 1);
    }
    EXPECT_EQ(stand_in(one).unpinned_while_waiting(), 0);
    expect_well(rondoCommDestroy(other));
  });
}

// The program may wait in the driver for a stream that waits for a call of ours.
TEST(StandIn, ADriverThatKeepsWhoAsksWaitingHoldsUpNothing) {
  run_device_ranks(
      DeviceKind::stand_in, 2,
      [](DeviceRank& one) {
        rondoComm_t other = nullptr;
        expect_well(rondoCommSplit(one.comm, 0, one.rank, &other, nullptr));
        const DeviceStream second = one.device.make_stream();
        const auto on_second = static_cast<rondoStream_t>(second);
        DeviceBuffer waits(one, f32, 3000), data(one.device, second, f32, 3000);
        data.fill(numbers_of(one.rank));
        one.device.synchronise(one.stream);
        stand_in(one).hold_checks(true);
        {
          Gate gate(one);
          expect_well(
              rondoAllReduce(waits.data(), waits.data(), 3000, rondoFloat32, rondoSum, one.comm, one.on()));
          std::this_thread::sleep_for(100ms);  // by now the device has been asked
          expect_well(
              rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, other, on_second));
          data.expect(sums_of(2));
          if (one.rank == 0) {
            expect_well(
                rondoAllReduce(data.data(), data.data(), 3000, rondoFloat32, rondoSum, other, on_second));
            one.device.synchronise(second);
          }
          rondoResult_t error = rondoSuccess;
          while (error == rondoSuccess) expect_well(rondoCommGetAsyncError(other, &error));
          EXPECT_EQ(error, rondoTimeout);
          expect_well(rondoCommAbort(std::exchange(one.comm, nullptr)));
        }
        expect_well(rondoCommDestroy(other));
        stand_in(one).hold_checks(false);
      },
      1500);
}

TEST(StandIn, WithoutADeviceStreamsAreRondosOwn) {
  run_device_ranks(DeviceKind::stand_in, 1, [](DeviceRank& one) {
    use_device(nullptr);
    EXPECT_EQ(rondoBarrier(one.comm, one.on()), rondoInvalidArgument);
    use_device(&one.device);
  });
}

}  // namespace
}  // namespace rondo::test
