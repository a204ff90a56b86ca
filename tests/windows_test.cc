// Calls on memory of rondoMemAlloc, which peers map: data, sentinels, ledger, memory that is freed and used
// again.
#include "src/window.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>

#include "src/calls.h"
#include "src/gather_bytes.h"
#include "tests/ranks.h"
#include "tests/typed_buffer.h"

namespace rondo::test {
namespace {

// Window memory with sentinels before and behind `count` elements.
class WindowBuffer {
 public:
  WindowBuffer(DataType type, std::size_t count)
      : type_(type), count_(count), memory_(static_cast<std::byte*>(allocate_window(bytes() + 2 * guard))) {
    std::memset(memory_, 0xA5, bytes() + 2 * guard);
  }
  ~WindowBuffer() {
    for (std::size_t i = 0; i < guard; ++i) {
      EXPECT_EQ(memory_[i], std::byte{0xA5}) << "a byte before the buffer was written";
      EXPECT_EQ(memory_[guard + bytes() + i], std::byte{0xA5}) << "a byte behind the buffer was written";
    }
    free_window(memory_);
  }
  WindowBuffer(const WindowBuffer&) = delete;
  WindowBuffer& operator=(const WindowBuffer&) = delete;

  std::byte* at(std::size_t index) const { return memory_ + guard + index * size_of(type_); }
  template <typename Value>
  void fill(Value value) {
    for (std::size_t i = 0; i < count_; ++i) set_element(at(i), type_, value(i));
  }
  template <typename Value>
  void expect(Value value) {
    for (std::size_t i = 0; i < count_; ++i)
      ASSERT_EQ(get_element(at(i), type_), static_cast<double>(value(i)))
          << "element " << i << " of " << count_;
  }

 private:
  static constexpr std::size_t guard = 40;  // no multiple of a line: what is reduced is not aligned
  std::size_t bytes() const { return count_ * size_of(type_); }

  DataType type_;
  std::size_t count_;
  std::byte* memory_;
};

double input(int rank, std::size_t index) {
  return static_cast<double>((index * 7 + 3) % 5 + static_cast<std::size_t>(rank) % 2);
}

double sum_of_inputs(int size, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += input(rank, index);
  return sum;
}

std::size_t window_mappings() {
  std::size_t mappings = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    mappings += line.find("rondo-window") != std::string::npos;
  return mappings;
}

struct Case {
  int size;
  RanksAre kind;
};

class Windows : public ::testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(Communicator&, Seat)>& body) {
    run_ranks(
        GetParam().size,
        [&](Communicator& comm) {
          body(comm, {comm.rank(), comm.size()});
        },
        test_options(), GetParam().kind);
  }
};

TEST_P(Windows, AllReduce) {
  run([](Communicator& comm, Seat seat) {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::i8, DataType::f64}) {
      for (const std::size_t count : {5'001u, 40'003u}) {
        for (const bool in_place : {false, true}) {
          WindowBuffer send(type, count), receive(type, count);
          send.fill([&](std::size_t i) { return input(seat.rank, i); });
          std::byte* to = in_place ? send.at(0) : receive.at(0);
          comm.run(all_reduce_call(seat, send.at(0), to, count, type, {}));
          (in_place ? send : receive).expect([&](std::size_t i) { return sum_of_inputs(seat.size, i); });
        }
      }
    }
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 16u);
  });
}

TEST_P(Windows, AllGatherAndReduceScatter) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size), rank = static_cast<std::size_t>(seat.rank);
    const std::size_t count = 7'003;
    for (const bool in_place : {false, true}) {
      WindowBuffer all(DataType::f32, count * ranks), mine(DataType::f32, count);
      mine.fill([&](std::size_t i) { return input(seat.rank, i); });
      std::memcpy(all.at(rank * count), mine.at(0), count * sizeof(float));
      comm.run(all_gather_call(seat, in_place ? all.at(rank * count) : mine.at(0), all.at(0), count,
                               DataType::f32));
      all.expect([&](std::size_t i) { return input(static_cast<int>(i / count), i % count); });

      all.fill([&](std::size_t i) { return input(seat.rank, i); });
      comm.run(reduce_scatter_call(seat, all.at(0), in_place ? all.at(rank * count) : mine.at(0), count,
                                   DataType::f32, {}));
      const auto reduced = [&](std::size_t i) { return sum_of_inputs(seat.size, rank * count + i); };
      if (!in_place) mine.expect(reduced);
      all.expect([&](std::size_t i) {
        return in_place && i / count == rank ? reduced(i % count) : input(seat.rank, i);
      });
    }
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 4u);
  });
}

// Plain calls, which take no list and no memory, among calls that do: any mix of ranks' paths is one call.
TEST_P(Windows, PlainCallsAndOthersAreTheSameCall) {
  run([](Communicator& comm, Seat seat) {
    const auto ranks = static_cast<std::size_t>(seat.size);
    const std::size_t count = 2'003;
    WindowBuffer send(DataType::f32, count * ranks), receive(DataType::f32, count * ranks);
    unsigned calls = 0;
    for (const CallKind kind : {CallKind::all_reduce, CallKind::all_gather, CallKind::reduce_scatter}) {
      for (int turn = 0; turn < 20; ++turn, ++calls) {
        send.fill([&](std::size_t i) { return turn + input(seat.rank, i); });
        const PlainCall plain{kind, DataType::f32, {}, send.at(0), receive.at(0), count};
        // In turn each rank goes the long way, and comes late now and then.
        if (turn % seat.size == seat.rank) {
          if (turn % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          comm.run(call_of(seat, plain));
        } else {
          comm.run(plain);
        }
        const auto rank = static_cast<std::size_t>(seat.rank);
        const std::size_t outputs = kind == CallKind::all_gather ? count * ranks : count;
        for (std::size_t i = 0; i < outputs; ++i) {
          double expected = turn * seat.size;
          if (kind == CallKind::all_gather)
            expected = turn + input(static_cast<int>(i / count), i % count);
          else
            expected += sum_of_inputs(seat.size, kind == CallKind::reduce_scatter ? rank * count + i : i);
          ASSERT_EQ(get_element(receive.at(i), DataType::f32), expected) << name_of(kind) << " " << i;
        }
      }
    }
    EXPECT_EQ(calls_on(comm, Algorithm::windows), calls);
  });
}

// A peer whose buffer is on the heap, or who wants something else.
TEST_P(Windows, PlainCallsGiveWay) {
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 4'001;
    WindowBuffer window(DataType::i32, count);
    std::vector<std::int32_t> heap(count, 1);
    window.fill([](std::size_t) { return 1; });
    void* const buffer = seat.rank == 0 ? static_cast<void*>(heap.data()) : window.at(0);
    comm.run(PlainCall{CallKind::all_reduce, DataType::i32, {}, buffer, buffer, count});
    EXPECT_EQ(static_cast<std::int32_t*>(buffer)[count - 1], seat.size);
    EXPECT_EQ(calls_on(comm, Algorithm::staged), 1u);
    const std::size_t other = seat.rank == 0 ? count : count - 1;
    EXPECT_THROW(
        comm.run(PlainCall{CallKind::all_reduce, DataType::i32, {}, window.at(0), window.at(0), other}),
        Error);
    window.fill([](std::size_t) { return 1; });
    comm.run(PlainCall{CallKind::all_reduce, DataType::i32, {}, window.at(0), window.at(0), count});
    window.expect([&](std::size_t) { return seat.size; });
  });
}

// All ranks' counts differ, one is empty, and the last rank's pieces are no multiple of a line.
TEST_P(Windows, UnevenCounts) {
  run([](Communicator& comm, Seat seat) {
    std::vector<std::size_t> counts, begins;
    std::size_t all_count = 0;
    for (int rank = 0; rank < seat.size; ++rank) {
      counts.push_back(rank == 1 ? 0 : 4'001 + 977 * static_cast<std::size_t>(rank));
      begins.push_back(all_count);
      all_count += counts.back();
    }
    const auto rank = static_cast<std::size_t>(seat.rank);
    WindowBuffer all(DataType::i32, all_count), mine(DataType::i32, counts[rank]);
    mine.fill([&](std::size_t i) { return input(seat.rank, i); });
    comm.run(all_gather_v_call(seat, mine.at(0), all.at(0), counts, DataType::i32));
    for (std::size_t from = 0; from < counts.size(); ++from)
      for (std::size_t i = 0; i < counts[from]; ++i)
        ASSERT_EQ(get_element(all.at(begins[from] + i), DataType::i32), input(static_cast<int>(from), i));

    all.fill([&](std::size_t i) { return input(seat.rank, i); });
    comm.run(reduce_scatter_v_call(seat, all.at(0), mine.at(0), counts, DataType::i32, {}));
    mine.expect([&](std::size_t i) { return sum_of_inputs(seat.size, begins[rank] + i); });
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 2u);
  });
}

TEST_P(Windows, Broadcast) {
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 5'003;
    for (int root = 0; root < seat.size; ++root) {
      for (const bool in_place : {false, true}) {
        WindowBuffer send(DataType::f32, count), receive(DataType::f32, count);
        send.fill([&](std::size_t i) { return root + input(seat.rank, i); });
        const bool at_its_place = in_place && seat.rank == root;
        std::byte* to = at_its_place ? send.at(0) : receive.at(0);
        comm.run(broadcast_call(seat, send.at(0), to, count, DataType::f32, root));
        (at_its_place ? send : receive).expect([&](std::size_t i) { return root + input(root, i); });
      }
    }
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 2u * static_cast<unsigned>(seat.size));
  });
}

TEST_P(Windows, AllToAll) {
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 3'001, ranks = static_cast<std::size_t>(seat.size);
    WindowBuffer send(DataType::i32, count * ranks);
    std::vector<std::int32_t> received(count * ranks);  // others need not reach it
    send.fill([&](std::size_t i) { return 100 * seat.rank + static_cast<int>(i / count); });
    comm.run(all_to_all_call(seat, send.at(0), received.data(), count, DataType::i32));
    for (std::size_t i = 0; i < received.size(); ++i)
      ASSERT_EQ(received[i], 100 * static_cast<int>(i / count) + seat.rank);
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 1u);
  });
}

// The parts of one piece of memory, at places of their own, as one batch.
Call batch_of(Seat seat, CallKind kind, const WindowBuffer& buffer, std::span<const std::size_t> places,
              std::size_t count) {
  const auto part = [&](std::size_t place) {
    std::byte* all = buffer.at(place);
    std::byte* mine = buffer.at(place + static_cast<std::size_t>(seat.rank) * count);
    if (kind == CallKind::all_gather) return all_gather_call(seat, mine, all, count, DataType::f32);
    if (kind == CallKind::reduce_scatter)
      return reduce_scatter_call(seat, all, mine, count, DataType::f32, {});
    return all_reduce_call(seat, all, all, count * static_cast<std::size_t>(seat.size), DataType::f32, {});
  };
  Call batch = part(places.front());
  for (const std::size_t place : places.subspan(1)) join(batch, part(place));
  return batch;
}

// Members of a group lie apart, in one window; on rank `odd_rank` at other places, where that is a rank.
void run_batches(Communicator& comm, Seat seat, int odd_rank) {
  const std::size_t count = 1'201, all_count = count * static_cast<std::size_t>(seat.size);
  const std::vector<std::size_t> places = seat.rank == odd_rank ? std::vector<std::size_t>{13 + all_count, 0}
                                                                : std::vector<std::size_t>{0, 13 + all_count};
  const auto first = static_cast<std::size_t>(seat.rank) * count;
  for (const CallKind kind : {CallKind::all_gather, CallKind::reduce_scatter, CallKind::all_reduce}) {
    WindowBuffer buffer(DataType::f32, 2 * all_count + 13);
    buffer.fill([&](std::size_t i) { return input(seat.rank, i); });
    comm.run(batch_of(seat, kind, buffer, places, count));
    std::vector<double> expected(2 * all_count + 13);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = input(seat.rank, i);
    for (std::size_t member = 0; member < 2; ++member) {
      for (std::size_t i = 0; i < all_count; ++i) {
        const auto owner = static_cast<int>(i / count);
        // Where rank `of` has this element.
        const auto at = [&](int of) { return ((member == 0) != (of == odd_rank) ? 0 : 13 + all_count) + i; };
        double sum = 0;
        for (int of = 0; of < seat.size; ++of) sum += input(of, at(of));
        double& mine = expected[places[member] + i];
        if (kind == CallKind::all_gather) mine = input(owner, at(owner));
        if (kind == CallKind::all_reduce || (kind == CallKind::reduce_scatter && i / count == first / count))
          mine = sum;
      }
    }
    buffer.expect([&](std::size_t i) { return expected[i]; });
  }
}

TEST_P(Windows, GroupsThatLieAlike) {
  run([](Communicator& comm, Seat seat) {
    run_batches(comm, seat, -1);
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 3u);
  });
}

// A rank whose members lie elsewhere: no peer could find them.
TEST_P(Windows, GroupsThatDoNotLieAlikeAreStaged) {
  run([](Communicator& comm, Seat seat) {
    run_batches(comm, seat, 1);
    EXPECT_EQ(calls_on(comm, Algorithm::staged), 3u);
  });
}

// Ring and direct have one total; so have windows and streams, edge by edge.
TEST_P(Windows, MoveTheBytesOfDirect) {
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 10'001;
    WindowBuffer window(DataType::f32, count);
    std::vector<float> heap(count);
    comm.ledger().reset();
    comm.run(all_reduce_call(seat, window.at(0), window.at(0), count, DataType::f32, {}));
    const auto on_windows = ledger_matrix(comm, ByteClass::payload);
    comm.ledger().reset();
    comm.run(all_reduce_call(seat, heap.data(), heap.data(), count, DataType::f32, {}));
    EXPECT_EQ(ledger_matrix(comm, ByteClass::payload), on_windows);
  });
}

// One rank's buffer is no window: all of them see that, and none waits for another.
TEST_P(Windows, OneRankOnTheHeapSendsAllToStreams) {
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 20'000;
    WindowBuffer window(DataType::i32, count);
    std::vector<std::int32_t> heap(count, seat.rank);
    window.fill([&](std::size_t) { return seat.rank; });
    std::byte* buffer = seat.rank == 0 ? reinterpret_cast<std::byte*>(heap.data()) : window.at(0);
    comm.run(all_reduce_call(seat, buffer, buffer, count, DataType::i32, {}));
    EXPECT_EQ(get_element(buffer + (count - 1) * 4, DataType::i32), seat.size * (seat.size - 1) / 2);
    EXPECT_EQ(calls_on(comm, Algorithm::windows), 0u);
  });
}

// Memory freed and allocated again, smaller and larger, often at the same address: never what was there
// before.
TEST_P(Windows, FreedMemoryIsNotTakenForNew) {
  run([](Communicator& comm, Seat seat) {
    for (int round = 0; round < 50; ++round) {
      const std::size_t count = 3'000 + static_cast<std::size_t>(round % 7) * 1'000;
      WindowBuffer buffer(DataType::f32, count);
      buffer.fill([&](std::size_t i) { return round + input(seat.rank, i); });
      comm.run(all_reduce_call(seat, buffer.at(0), buffer.at(0), count, DataType::f32, {}));
      buffer.expect([&](std::size_t i) { return seat.size * round + sum_of_inputs(seat.size, i); });
    }
    // Each peer's last window, and in a process of many ranks their own.
    EXPECT_LE(window_mappings(), 2 * static_cast<std::size_t>(seat.size));
  });
}

// What a peer has freed goes at the next call on windows, whichever kind it is.
TEST_P(Windows, PlainCallsKeepNoFreedWindow) {
  if (GetParam().kind == RanksAre::threads) GTEST_SKIP() << "ranks of one process map nothing";
  run([](Communicator& comm, Seat seat) {
    const std::size_t count = 4'000;
    {
      WindowBuffer both(DataType::f32, count);
      both.fill([](std::size_t) { return 1; });
      comm.run(PlainCall{CallKind::all_reduce, DataType::f32, {}, both.at(0), both.at(0), count});
      comm.run(barrier_call());
    }
    WindowBuffer input(DataType::f32, count * static_cast<std::size_t>(seat.size));
    std::vector<float> mine(count);
    for (int turn = 0; turn < 2; ++turn)
      comm.run(PlainCall{CallKind::reduce_scatter, DataType::f32, {}, input.at(0), mine.data(), count});
    EXPECT_LE(window_mappings(), static_cast<std::size_t>(seat.size)) << "this rank's and each peer's";
  });
}

// Memory from malloc, in no page of its own, that becomes a window and heap again, over and over.
TEST_P(Windows, PagesAreExchangedInPlace) {
  if (GetParam().kind == RanksAre::threads) GTEST_SKIP() << "other threads use the pages at the edges";
  run([](Communicator& comm, Seat seat) {
    for (const std::size_t count : {5'000u, 1'000'000u, 5'000u}) {
      const std::unique_ptr<float[], decltype(&std::free)> memory(
          static_cast<float*>(std::malloc(count * sizeof(float))), std::free);
      float* const data = memory.get();
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(input(seat.rank, i));
      for (unsigned round = 0; round < 3; ++round) {
        comm.ledger().reset();
        void* const pages = exchange_pages(data, count * sizeof(float));
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], input(seat.rank, i)) << i;
        comm.run(all_reduce_call(seat, data, data, count, DataType::f32, {}));
        EXPECT_EQ(calls_on(comm, Algorithm::windows), 1u);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], sum_of_inputs(seat.size, i)) << i;
        comm.run(barrier_call());  // nobody is in the others' memory any more
        exchange_pages_back(pages);
        EXPECT_FALSE(find_window(data, count * sizeof(float)).has_value());
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], sum_of_inputs(seat.size, i)) << i;
        for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(input(seat.rank, i));
        comm.run(all_reduce_call(seat, data, data, count, DataType::f32, {}));
        EXPECT_EQ(calls_on(comm, Algorithm::staged), 1u);
        for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(input(seat.rank, i));
      }
    }
  });
}

// Against the rules, but never with the wrong memory: a window whose memory was freed is not taken for what
// stands there next.
TEST(WindowMemory, ForgetsWhatWasFreedUnderneath) {
  constexpr std::size_t bytes = 16 * 4096;
  const auto map = [](void* where, int flags) {
    return ::mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  };
  void* const memory = map(nullptr, 0);
  ASSERT_NE(memory, MAP_FAILED);
  exchange_pages(memory, bytes);
  const std::uint64_t number = find_window(memory, bytes)->number;
  ASSERT_EQ(map(memory, MAP_FIXED), memory);  // the allocator gave it back and took it again
  std::byte* const middle = static_cast<std::byte*>(memory) + 4096;
  exchange_pages(middle, 4096);
  EXPECT_NE(find_window(middle, 4096)->number, number);
  EXPECT_FALSE(find_window(memory, bytes).has_value());
  exchange_pages_back(middle);
  ::munmap(memory, bytes);
}

TEST(WindowMemory, ExchangesOnlyPrivateHeapMemory) {
  void* const on_the_stack = __builtin_frame_address(0);  // sanitizers keep variables elsewhere
  static const int constant = 1;
  void* const window = allocate_window(4096);
  EXPECT_THROW(exchange_pages(on_the_stack, 16), Error);
  EXPECT_THROW(exchange_pages(&constant, sizeof constant), Error) << "a file's pages";
  EXPECT_THROW(exchange_pages(window, 4096), Error) << "shared already";
  EXPECT_THROW(exchange_pages(window, std::size_t{1} << 40), Error) << "beyond all memory";
  EXPECT_THROW(exchange_pages(window, std::numeric_limits<std::size_t>::max()), Error);
  EXPECT_THROW(exchange_pages_back(window), Error);
  std::byte* const heap = static_cast<std::byte*>(std::aligned_alloc(4096, 4 * 4096));
  void* const pages = exchange_pages(heap + 4096, 4096);
  EXPECT_EQ(pages, heap + 4096);
  EXPECT_THROW(free_window(pages), Error) << "rondoMemAlloc did not give it";
  try {
    exchange_pages(heap, 3 * 4096);
    ADD_FAILURE() << "exchanged a page twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(pages))),
              std::string::npos)
        << error.what();
  }
  exchange_pages_back(pages);
  EXPECT_THROW(exchange_pages_back(pages), Error);
  std::free(heap);
  free_window(window);
}

INSTANTIATE_TEST_SUITE_P(All, Windows,
                         ::testing::Values(Case{2, RanksAre::processes}, Case{3, RanksAre::processes},
                                           Case{5, RanksAre::processes}, Case{3, RanksAre::threads}),
                         [](const auto& info) {
                           return fmt::format(
                               "{}_{}", info.param.size,
                               info.param.kind == RanksAre::processes ? "processes" : "threads");
                         });

// Rank 0 is done at once, and its deadline passes while rank 1 still stores to its output. True if it came
// so.
bool deadline_passes_while_peer_stores(const UniqueId& id, int rank) {
  const std::size_t most = 96 << 20;
  const std::vector<std::size_t> counts{64, most};
  WindowBuffer input(DataType::u8, counts[static_cast<std::size_t>(rank)]), output(DataType::u8, most + 64);
  const auto comm = Communicator::create(id.meeting_place(), rank, 2, test_options());
  comm->run(barrier_call());
  comm->set_timeout(std::chrono::milliseconds(rank == 0 ? 3 : 60'000));
  try {
    comm->run(all_gather_v_call({rank, 2}, input.at(0), output.at(0), counts, DataType::u8));
    return false;
  } catch (const Error& error) {
    if (rank == 1) return true;
    if (std::string(error.what()).find("all ranks have made this call") == std::string::npos) return false;
  }
  std::memset(output.at(0), 0x5A, most + 64);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (std::size_t i = 0; i < most + 64; ++i)
    if (*output.at(i) != std::byte{0x5A}) {
      ADD_FAILURE() << "a peer stored to byte " << i << " after the call had failed";
      break;
    }
  return true;
}

TEST(WindowMemory, NobodyStoresToBuffersOfACallThatHasFailed) {
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const came_so = new (shared) std::atomic<bool>(false);
  for (int turn = 0; turn < 20 && !*came_so && !HasFailure(); ++turn) {
    const UniqueId id = UniqueId::make();
    run_processes(2, [&](int rank) {
      if (deadline_passes_while_peer_stores(id, rank) && rank == 0) *came_so = true;
    });
  }
  EXPECT_TRUE(*came_so) << "rank 1 was never the later one";
  ::munmap(shared, sizeof(std::atomic<bool>));
}

TEST(WindowMemory, RefusesWhatItDidNotGive) {
  int on_the_stack = 0;
  EXPECT_THROW(free_window(&on_the_stack), Error);
  EXPECT_THROW(allocate_window(0), Error);
  void* memory = allocate_window(1);
  EXPECT_TRUE(find_window(memory, 1).has_value());
  EXPECT_FALSE(find_window(&on_the_stack, sizeof on_the_stack).has_value());
  EXPECT_FALSE(find_window(memory, 1 << 20).has_value()) << "longer than the window";
  free_window(memory);
  EXPECT_THROW(free_window(memory), Error);
}

}  // namespace
}  // namespace rondo::test
