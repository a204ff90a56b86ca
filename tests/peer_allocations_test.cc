// Device memory of other processes: fresh data each time, whatever is freed and allocated again; nothing held
// for ever.
#include <numeric>

#include "src/calls.h"
#include "src/peer_allocations.h"
#include "tests/device_ranks.h"

namespace rondo::test {
namespace {

class PeerMemory : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
};
INSTANTIATE_TEST_SUITE_P(, PeerMemory, ::testing::Values(DeviceKind::stand_in, DeviceKind::cuda),
                         [](const auto& info) { return name_of(info.param); });

// What each rank shows the others.
struct Card {
  ProcessIdentity process;
  DeviceReference first, second;
};

// A process that shows memory to others and reads theirs, by way of a communicator on the host.
class Reader {
 public:
  Reader(DeviceKind kind, Communicator& communicator)
      : device_(make_device(kind)),
        stream_(device_->make_stream()),
        told_(*device_),
        peers_(*device_, stream_),
        communicator_(communicator),
        host_(4096) {
    device_->pin(stream_, host_);
  }
  ~Reader() { device_->unpin(stream_, host_.data()); }

  Device& device() { return *device_; }
  PeerAllocations& peers() { return peers_; }
  ToldAllocations& told() { return told_; }

  void write(std::byte* to, std::uint64_t value) {
    std::memcpy(host_.data(), &value, sizeof value);
    device_->copy(stream_, to, host_.data(), sizeof value);
    device_->synchronise(stream_);
  }
  std::uint64_t read(const std::byte* from) {
    device_->copy(stream_, host_.data(), from, sizeof(std::uint64_t));
    device_->synchronise(stream_);
    std::uint64_t value = 0;
    std::memcpy(&value, host_.data(), sizeof value);
    return value;
  }
  std::vector<Card> show(const std::byte* first, const std::byte* second) {
    const Card mine{this_process(), told_.tell(stream_, first, sizeof(std::uint64_t)),
                    told_.tell(stream_, second, sizeof(std::uint64_t))};
    std::vector<Card> all(static_cast<std::size_t>(communicator_.size()));
    communicator_.run(all_gather_call({communicator_.rank(), communicator_.size()}, &mine, all.data(),
                                      sizeof mine, DataType::u8));
    return all;
  }
  std::uint64_t read(const Card& card, const DeviceReference& reference) {
    const auto open = peers_.open(card.process, reference);
    return read(open->base() + reference.offset);
  }
  void meet() { communicator_.run(PlainCall{}); }

 private:
  std::unique_ptr<Device> device_;
  DeviceStream stream_;
  ToldAllocations told_;
  PeerAllocations peers_;
  Communicator& communicator_;
  std::vector<std::byte> host_;
};

TEST_P(PeerMemory, IsFreshEachRoundAndHeldNoLongerThanItsOwner) {
  const DeviceKind kind = GetParam();
  run_ranks(2, [kind](Communicator& communicator) {
    Reader reader(kind, communicator);
    const auto rank = static_cast<std::uint64_t>(communicator.rank());
    const std::size_t sizes[] = {1 << 12, 1 << 16, 1 << 20, 1 << 14};
    std::map<const std::byte*, int> rounds_at;
    for (std::uint64_t round = 0; round < 200; ++round) {
      const std::size_t bytes = sizes[round % 4] * (1 + rank);
      std::byte* const memory = reader.device().allocate(bytes);
      ++rounds_at[memory];
      std::byte* const second = memory + bytes / 2;
      reader.write(memory, 1000 * round + rank);
      reader.write(second, 1000 * round + 100 + rank);
      const std::vector<Card> cards = reader.show(memory, second);
      const Card& peer = cards[1 - rank];
      EXPECT_EQ(peer.first.number, peer.second.number);
      EXPECT_EQ(reader.read(peer, peer.first), 1000 * round + 1 - rank) << "round " << round;
      EXPECT_EQ(reader.read(peer, peer.second), 1000 * round + 100 + 1 - rank) << "round " << round;
      EXPECT_LE(reader.peers().open_count(), 1u) << "of what its owner has freed";
      reader.meet();
      reader.device().free(memory);
    }
    EXPECT_LT(rounds_at.size(), 200u) << "no address was used again: the test has not tested it";
  });
}

TEST_P(PeerMemory, IsOpenedOnceAndKept) {
  const DeviceKind kind = GetParam();
  run_ranks(3, [kind](Communicator& communicator) {
    Reader reader(kind, communicator);
    std::vector<std::byte*> memories;
    for (int i = 0; i < 5; ++i) memories.push_back(reader.device().allocate(1 << 16));
    for (int round = 0; round < 10; ++round)
      for (const std::byte* memory : memories) {
        const std::vector<Card> cards = reader.show(memory, memory + 8);
        for (const Card& card : cards)
          if (card.process != this_process()) reader.read(card, card.first);
      }
    EXPECT_EQ(reader.peers().open_count(), 10u);
    reader.peers().forget(
        reader.show(memories[0], memories[0])[(static_cast<std::size_t>(communicator.rank()) + 1) % 3]
            .process);
    EXPECT_EQ(reader.peers().open_count(), 5u) << "of two peers one was forgotten";
    reader.meet();
    for (std::byte* memory : memories) reader.device().free(memory);
  });
}

// What a call uses stays open until the call has let it go, whatever its owner does.
TEST_P(PeerMemory, StaysOpenWhileACallHoldsIt) {
  const DeviceKind kind = GetParam();
  run_ranks(2, [kind](Communicator& communicator) {
    Reader reader(kind, communicator);
    const auto peer = static_cast<std::size_t>(1 - communicator.rank());
    std::byte* const first = reader.device().allocate(1 << 16);
    std::byte* const second = reader.device().allocate(1 << 16);
    const Card card = reader.show(first, second)[peer];
    auto held = reader.peers().open(card.process, card.first);
    reader.peers().open(card.process, card.second);
    reader.meet();
    reader.device().free(second);
    const Card later = reader.show(first, first)[peer];
    EXPECT_GT(later.first.freed, card.first.freed) << "its owner has noticed";
    EXPECT_NE(reader.peers().open(later.process, later.first), held) << "opened again";
    EXPECT_EQ(reader.peers().open_count(), 2u) << "what is held, and the same anew";
    reader.read(held->base());
    held = nullptr;
    reader.peers().open(later.process, later.first);
    EXPECT_EQ(reader.peers().open_count(), 1u);
    reader.meet();
    reader.device().free(first);
  });
}

TEST_P(PeerMemory, OfTheHostOrBeyondTheEndIsNotTold) {
  run_processes(1, [kind = GetParam()](int) {
    const auto device = make_device(kind);
    ToldAllocations told(*device);
    const DeviceStream stream = device->make_stream();
    int on_the_host = 0;
    EXPECT_EQ(told.tell(stream, &on_the_host, sizeof on_the_host).number, 0u);
    std::byte* const memory = device->allocate(4096);
    EXPECT_NE(told.tell(stream, memory, 4096).number, 0u);
    const auto whole = device->allocation_of(memory);
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(told.tell(stream, memory + 8, whole->bytes).number, 0u);
    device->free(memory);
  });
}

TEST(StandInPeerMemory, OfAnOwnerThatHasDiedIsAnError) {
  run_ranks(2, [](Communicator& communicator) {
    Reader reader(DeviceKind::stand_in, communicator);
    std::byte* const memory = reader.device().allocate(4096);
    const Card card = reader.show(memory, memory)[static_cast<std::size_t>(1 - communicator.rank())];
    if (communicator.rank() == 1) return;
    const std::string descriptors = fmt::format("/proc/{}/fd/0", card.process.pid);
    while (::access(descriptors.c_str(), F_OK) == 0) ::usleep(1000);
    EXPECT_THROW(reader.peers().open(card.process, card.first), Error);
    EXPECT_EQ(reader.peers().open_count(), 0u);
  });
}

}  // namespace
}  // namespace rondo::test
