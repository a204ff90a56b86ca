// What kernels of several ranks need of the host: memory that all have mapped, and words shared with the
// host.
#include <numeric>

#include "src/device_exchange.h"
#include "tests/device_ranks.h"

namespace rondo::test {
namespace {

class Exchange : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};
INSTANTIATE_TEST_SUITE_P(, Exchange, ::testing::Values(DeviceKind::stand_in, DeviceKind::cuda),
                         [](const auto& info) { return name_of(info.param); });

// Copies of the stream stand for what kernels would store.
class Words {
 public:
  Words(Device& device, DeviceStream stream) : device_(device), stream_(stream), host_(4096) {
    device_.pin(stream_, host_);
  }
  ~Words() { device_.unpin(stream_, host_.data()); }

  void store(std::byte* to, std::uint64_t value) {
    std::memcpy(host_.data(), &value, sizeof value);
    device_.copy(stream_, to, host_.data(), sizeof value);
    device_.synchronise(stream_);
  }
  std::uint64_t load(const std::byte* from) {
    device_.copy(stream_, host_.data(), from, sizeof(std::uint64_t));
    device_.synchronise(stream_);
    std::uint64_t value = 0;
    std::memcpy(&value, host_.data(), sizeof value);
    return value;
  }

 private:
  Device& device_;
  DeviceStream stream_;
  std::vector<std::byte> host_;
};

// Every rank stores a word to every rank's memory, in a place of its own.
void expect_exchange(Device& device, DeviceStream stream, Communicator& communicator) {
  constexpr std::size_t bytes = 3 * 64 * 1024;
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::string why_not;
  const auto exchange = DeviceExchange::make(device, stream, communicator, bytes, why_not);
  ASSERT_NE(exchange, nullptr) << why_not;
  ASSERT_EQ(exchange->memories().size(), static_cast<std::size_t>(communicator.size()));
  Words words(device, stream);
  EXPECT_EQ(words.load(exchange->memories()[rank] + bytes - 8), 0u) << "zeroed";
  communicator.run(PlainCall{});
  for (std::size_t peer = 0; peer < exchange->memories().size(); ++peer)
    words.store(exchange->memories()[peer] + 8 * rank, 100 * peer + rank + 1);
  communicator.run(PlainCall{});
  for (std::size_t peer = 0; peer < exchange->memories().size(); ++peer)
    EXPECT_EQ(words.load(exchange->memories()[rank] + 8 * peer), 100 * rank + peer + 1);
  exchange->close(communicator);
}

TEST_P(Exchange, AllRanksReachAllRanksMemory) {
  const DeviceKind kind = GetParam();
  for (int size = 1; size <= 5; ++size)
    run_ranks(size, [kind](Communicator& communicator) {
      const auto device = make_device(kind);
      const DeviceStream stream = device->make_stream();
      for (int again = 0; again < 2; ++again) expect_exchange(*device, stream, communicator);
    });
}

TEST_P(Exchange, AlsoRanksOfOneProcess) {
  run_processes(1, [kind = GetParam()](int) {
    const auto device = make_device(kind);
    run_ranks(
        3,
        [&](Communicator& communicator) {
          const DeviceStream stream = device->make_stream();
          expect_exchange(*device, stream, communicator);
          device->destroy_stream(stream);
        },
        test_options(), RanksAre::threads);
  });
}

TEST(StandInExchange, WhatOneRankCannotDoNoneDoes) {
  for (const bool opening : {false, true})
    run_ranks(3, [opening](Communicator& communicator) {
      StandInDevice device;
      const DeviceStream stream = device.make_stream();
      if (communicator.rank() == 1)
        device.refuse(opening ? StandInDevice::Refused::open : StandInDevice::Refused::allocate);
      std::string why_not;
      EXPECT_EQ(DeviceExchange::make(device, stream, communicator, 4096, why_not), nullptr);
      EXPECT_NE(why_not.find("rank 1: stand-in"), std::string::npos) << why_not;
      EXPECT_EQ(device.allocated_bytes(), 0u);
      EXPECT_EQ(device.open_count(), 0u);
      EXPECT_EQ(device.freed_while_open(), 0);
      device.refuse(StandInDevice::Refused::nothing);
      expect_exchange(device, stream, communicator);
      EXPECT_EQ(device.freed_while_open(), 0);
    });
}

TEST_P(Exchange, HostAndKernelsShareWords) {
  run_processes(1, [kind = GetParam()](int) {
    const auto device = make_device(kind);
    const DeviceStream stream = device->make_stream();
    Words words(*device, stream);
    for (int again = 0; again < 2; ++again) {
      DeviceControl control(*device, stream, 3);
      const DeviceControl::Addresses kernels = control.on_device();
      const auto at = [](std::uint64_t* word) { return reinterpret_cast<std::byte*>(word); };
      EXPECT_EQ(words.load(at(kernels.abort)), 0u);
      EXPECT_EQ(control.failure(), 0u);
      control.abort();
      EXPECT_EQ(words.load(at(kernels.abort)), 1u);
      words.store(at(kernels.failure), 0x1234);
      EXPECT_EQ(control.failure(), 0x1234u);

      Traffic moved(3);
      words.store(at(kernels.sent + 2), 1000);
      words.store(at(kernels.fetched + 1), 300);
      control.take_traffic(moved);
      words.store(at(kernels.sent + 2), 1500);
      control.take_traffic(moved);
      EXPECT_EQ(moved.of(ByteClass::payload), (ByteCounts{0, 0, 1500}));
      EXPECT_EQ(moved.fetched, (ByteCounts{0, 300, 0}));
    }
  });
}

}  // namespace
}  // namespace rondo::test
