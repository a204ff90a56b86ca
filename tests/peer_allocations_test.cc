// Device memory of other processes: fresh data each time, whatever is freed and allocated again; nothing held
// for ever.
#include <numeric>

#include "src/calls.h"
#include "src/peer_allocations.h"
#include "src/pinned_blocks.h"
#include "tests/device_ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

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
        peers_(std::in_place, *device_, stream_),
        communicator_(communicator),
        host_(4096) {
    device_->pin(stream_, host_);
  }
  ~Reader() {
    device_->unpin(stream_, host_.data());
    peers_.reset();
    let_go_now(1s);
  }

  Device& device() { return *device_; }
  PeerAllocations& peers() { return *peers_; }
  DeviceStream stream() const { return stream_; }
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
    return show({this_process(), told_.tell(stream_, first, sizeof(std::uint64_t)),
                 told_.tell(stream_, second, sizeof(std::uint64_t))});
  }
  std::vector<Card> show(const Card& mine) {
    std::vector<Card> all(static_cast<std::size_t>(communicator_.size()));
    communicator_.run(all_gather_call({communicator_.rank(), communicator_.size()}, &mine, all.data(),
                                      sizeof mine, DataType::u8));
    return all;
  }
  std::uint64_t read(int owner, const DeviceReference& reference) {
    const auto open = peers_->open(owner, reference);
    return read(open->base() + reference.offset);
  }
  void meet() { communicator_.run(PlainCall{}); }

 private:
  std::unique_ptr<Device> device_;
  DeviceStream stream_;
  ToldAllocations told_;
  std::optional<PeerAllocations> peers_;
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
      const int owner = 1 - communicator.rank();
      EXPECT_EQ(peer.first.number, peer.second.number);
      EXPECT_EQ(reader.read(owner, peer.first), 1000 * round + 1 - rank) << "round " << round;
      EXPECT_EQ(reader.read(owner, peer.second), 1000 * round + 100 + 1 - rank) << "round " << round;
      EXPECT_LE(reader.peers().open_count(), 1u) << "of what its owner has freed";
      let_go_now(1s);
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
        for (int owner = 0; owner < 3; ++owner)
          if (owner != communicator.rank()) reader.read(owner, cards[static_cast<std::size_t>(owner)].first);
      }
    EXPECT_EQ(reader.peers().open_count(), 10u);
    reader.meet();
    for (std::byte* memory : memories) reader.device().free(memory);
  });
}

// Each rank looks after what it has told of itself, also where ranks are threads of one process.
TEST_P(PeerMemory, StaysOpenWhereRanksOfOneProcessKnowOfDifferentFrees) {
  const DeviceKind kind = GetParam();
  run_ranks(2, [kind](Communicator& communicator) {
    Reader reader(kind, communicator);
    ToldAllocations of_another_rank(reader.device());
    std::byte* const gone = reader.device().allocate(1 << 16);
    of_another_rank.tell(reader.stream(), gone, 8);
    reader.device().free(gone);
    std::byte* const first = reader.device().allocate(1 << 18);
    std::byte* const second = reader.device().allocate(1 << 18);
    const Card shown =
        reader.show({this_process(), reader.told().tell(reader.stream(), first, 8),
                     of_another_rank.tell(reader.stream(), second,
                                          8)})[static_cast<std::size_t>(1 - communicator.rank())];
    ASSERT_NE(shown.first.freed, shown.second.freed);
    const auto of_first = reader.peers().open(0, shown.first),
               of_second = reader.peers().open(1, shown.second);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(reader.peers().find(0, shown.first), of_first);
      EXPECT_EQ(reader.peers().find(1, shown.second), of_second);
    }
    reader.meet();
    reader.device().free(first);
    reader.device().free(second);
  });
}

// What a call uses stays open until the call has let it go, whatever its owner does.
TEST_P(PeerMemory, StaysOpenWhileACallHoldsIt) {
  const DeviceKind kind = GetParam();
  run_ranks(2, [kind](Communicator& communicator) {
    Reader reader(kind, communicator);
    const int owner = 1 - communicator.rank();
    const auto peer = static_cast<std::size_t>(owner);
    std::byte* const first = reader.device().allocate(1 << 16);
    std::byte* const second = reader.device().allocate(1 << 16);
    const Card card = reader.show(first, second)[peer];
    auto held = reader.peers().open(owner, card.first);
    reader.peers().open(owner, card.second);
    reader.meet();
    reader.device().free(second);
    const Card later = reader.show(first, first)[peer];
    EXPECT_GT(later.first.freed, card.first.freed) << "its owner has noticed";
    EXPECT_NE(reader.peers().open(owner, later.first), held) << "opened again";
    reader.read(held->base());
    held = nullptr;
    EXPECT_EQ(reader.peers().open_count(), 1u) << "what was let go is opened no more";
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
    EXPECT_THROW(reader.peers().open(1, card.first), Error);
    EXPECT_EQ(reader.peers().open_count(), 0u);
  });
}

}  // namespace
}  // namespace rondo::test
