// Communicators over several hosts: who is where, what goes between them, the models, and the kernel's
// counters as a second witness. (tests/collective_test.cc runs all collectives over hosts.)
#include "src/hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/witness.h"
#include "include/rondo/rondo.h"
#include "models/generator.h"
#include "models/megatron.h"
#include "models/qwen3.h"
#include "src/calls.h"
#include "src/collective.h"
#include "src/control_groups.h"
#include "src/engine.h"
#include "src/gather_bytes.h"
#include "src/network.h"
#include "src/rendezvous.h"
#include "tests/error_message.h"
#include "tests/test_hosts.h"
#include "tests/typed_buffer.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

Seat seat_of(const Communicator& comm) { return {comm.rank(), comm.size()}; }

Call sum_call(const Communicator& comm, std::vector<float>& data) {
  return all_reduce_call(seat_of(comm), data.data(), data.data(), data.size(), DataType::f32, {});
}

// ---- who is where ----

ProcessIdentity process(std::uint64_t boot, std::uint64_t network) { return {boot, network, 1, 1, 1}; }

TEST(Hosts, AreAKernelsNetworkNamespaces) {
  const Hosts hosts =
      Hosts::group({process(1, 1), process(2, 1), process(1, 1), process(1, 2), process(2, 1)},
                   {"a", "b", "a", "c", "b"}, std::vector<CpuPlace>(5));
  EXPECT_EQ(hosts.of, (std::vector<int>{0, 1, 0, 2, 1}));
  EXPECT_EQ(hosts.place, (std::vector<int>{0, 0, 1, 0, 1}));
  EXPECT_EQ(hosts.ring(), (std::vector<int>{0, 2, 1, 4, 3}));
  EXPECT_EQ(hosts.description(3), "rank 3 on host c");
  EXPECT_TRUE(hosts.together(1, 4));
  EXPECT_FALSE(hosts.together(2, 3));
  EXPECT_FALSE(hosts.one());
}

TEST(Hosts, TheRingGoesAlongTheCores) {
  // As `mpirun --map-by socket` binds: neighbours by number are on different packages.
  std::vector<CpuPlace> cpus{{0, 0, 0, 0}, {1, 1, 8, 0}, {0, 0, 0, 1},
                             {1, 1, 8, 1}, {1, 1, 8, 0}, {0, 0, 0, 5}};
  const std::vector<ProcessIdentity> processes{process(1, 1), process(1, 1), process(1, 1),
                                               process(1, 1), process(2, 1), process(2, 1)};
  const std::vector<std::string> names(6);
  EXPECT_EQ(Hosts::group(processes, names, cpus).ring(), (std::vector<int>{0, 2, 1, 3, 5, 4}));
  cpus[3] = {};  // not bound
  EXPECT_EQ(Hosts::group(processes, names, cpus).ring(), (std::vector<int>{0, 1, 2, 3, 5, 4}));
}

CpuAllowance allowance(std::initializer_list<int> cpus, double quota) {
  CpuAllowance allowance{{}, quota};
  for (const int cpu : cpus) CPU_SET(cpu, &allowance.cpus);
  return allowance;
}

TEST(Hosts, AMachinesCpusAreThoseOfAllItsRanksAndAQuotaIsAHosts) {
  using Set = std::set<std::uint64_t>;
  const std::vector<ProcessIdentity> one_each{process(1, 1), process(1, 2), process(1, 3)};
  const CpuAllowance three = allowance({0, 1, 2}, 100), pod = allowance({0, 1, 2}, 1);
  EXPECT_EQ(crowded_machines(one_each, {three, three, three}), Set{});
  EXPECT_EQ(crowded_machines(one_each, {pod, pod, pod}), Set{});
  const CpuAllowance first = allowance({0}, 100), second = allowance({1}, 100);
  EXPECT_EQ(crowded_machines(one_each, {first, second, second}), Set{1});
  const std::vector<ProcessIdentity> two_in_a_pod{process(1, 1), process(2, 1), process(2, 1)};
  EXPECT_EQ(crowded_machines(two_in_a_pod, {pod, pod, three}), Set{2});
  EXPECT_EQ(crowded_machines(two_in_a_pod, {pod, first, second}), Set{});
}

// ---- what is chosen ----

Hosts hosts_with(int hosts, int ranks) {
  std::vector<ProcessIdentity> processes;
  for (int rank = 0; rank < hosts * ranks; ++rank)
    processes.push_back(process(static_cast<std::uint64_t>(rank / ranks), 1));
  return Hosts::group(processes, std::vector<std::string>(processes.size()),
                      std::vector<CpuPlace>(processes.size()));
}

Call call_of(CallKind kind, int ranks, std::size_t bytes) {
  Call call;
  call.kind = kind;
  if (kind == CallKind::broadcast || kind == CallKind::reduce)
    call.chunk_bytes = {bytes};
  else
    call.chunk_bytes.assign(static_cast<std::size_t>(ranks), bytes / static_cast<std::size_t>(ranks));
  return call;
}

struct Choice {
  CallKind kind;
  int hosts, ranks;  // ranks a host
  std::size_t bytes;
  Algorithm expected;

  Call call() const { return call_of(kind, hosts * ranks, bytes); }
  void expect_on(const Hosts& where) const {
    EXPECT_EQ(choose_between_hosts(call(), Algorithm::automatic, where), expected)
        << name_of(kind) << " of " << bytes << " on " << hosts << " x " << ranks;
  }
};

TEST(BetweenHosts, TheChoiceIsMadeByKindBytesAndRanks) {
  for (const Choice& one : {Choice{CallKind::all_reduce, 2, 1, 64, Algorithm::one_shot},
                            Choice{CallKind::all_reduce, 4, 1, 10'920, Algorithm::one_shot},
                            Choice{CallKind::all_reduce, 4, 1, 10'928, Algorithm::direct},
                            Choice{CallKind::all_reduce, 4, 2, 16'384, Algorithm::direct},
                            Choice{CallKind::all_reduce, 4, 2, 16'392, Algorithm::hierarchy},
                            Choice{CallKind::all_reduce, 4, 1, 16'388, Algorithm::ring},
                            Choice{CallKind::all_reduce, 16, 1, 2'176, Algorithm::one_shot},
                            Choice{CallKind::all_reduce, 16, 1, 2'192, Algorithm::direct},
                            Choice{CallKind::all_gather, 4, 1, 64, Algorithm::direct},
                            Choice{CallKind::reduce_scatter, 4, 2, 16'384, Algorithm::direct},
                            Choice{CallKind::reduce, 4, 2, 16'384, Algorithm::direct},
                            Choice{CallKind::reduce, 4, 2, 16'385, Algorithm::ring},
                            Choice{CallKind::broadcast, 4, 1, 4'095, Algorithm::direct},
                            Choice{CallKind::broadcast, 4, 1, 4'096, Algorithm::tree},
                            Choice{CallKind::broadcast, 4, 2, 16'384, Algorithm::tree},
                            Choice{CallKind::broadcast, 4, 1, 16'385, Algorithm::ring},
                            Choice{CallKind::all_to_all, 4, 1, 1 << 20, Algorithm::direct}}) {
    const Call call = one.call();
    const Hosts hosts = hosts_with(one.hosts, one.ranks);
    one.expect_on(hosts);
    EXPECT_EQ(choose_between_hosts(call, Algorithm::one_shot, hosts),
              one.kind == CallKind::all_reduce ? Algorithm::one_shot : one.expected);
    EXPECT_EQ(choose_between_hosts(call, Algorithm::tree, hosts),
              one.kind == CallKind::broadcast ? Algorithm::tree : one.expected);
  }
}

TEST(BetweenHosts, WhereRanksShareCoresSmallCallsHaveFewMessages) {
  for (const Choice& one : {Choice{CallKind::all_reduce, 4, 1, 10'920, Algorithm::doubling},
                            Choice{CallKind::all_reduce, 4, 1, 10'928, Algorithm::direct},
                            Choice{CallKind::all_reduce, 3, 2, 4'092, Algorithm::doubling},
                            Choice{CallKind::all_reduce, 3, 2, 4'104, Algorithm::one_shot},
                            Choice{CallKind::all_gather, 4, 2, 16'384, Algorithm::doubling},
                            Choice{CallKind::all_gather, 3, 1, 4'098, Algorithm::direct},
                            Choice{CallKind::reduce_scatter, 4, 1, 16'384, Algorithm::doubling},
                            Choice{CallKind::reduce_scatter, 4, 1, 16'388, Algorithm::ring},
                            Choice{CallKind::reduce, 4, 1, 64, Algorithm::direct},
                            Choice{CallKind::broadcast, 4, 1, 64, Algorithm::direct}}) {
    Hosts hosts = hosts_with(one.hosts, one.ranks);
    hosts.short_of_cores = true;
    one.expect_on(hosts);
  }
}

class OverHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TestHosts::obstacle().empty()) GTEST_SKIP() << TestHosts::obstacle();
  }
  static void run(const Seating& seating, const std::function<void(Communicator&)>& body,
                  const CommunicatorOptions& options = test_options()) {
    run_on_hosts(TestHosts::shared(hosts_of(seating)), seating, body, options);
  }
};

TEST_F(OverHosts, ACommunicatorKnowsWhoIsWhere) {
  run({0, 1, 0, 1}, [](Communicator& comm) {
    EXPECT_EQ(comm.hosts().of, (std::vector<int>{0, 1, 0, 1}));
    EXPECT_NE(comm.hosts().description(1).find("(10.91.0.2)"), std::string::npos);
  });
}

// Bytes that all ranks sent to ranks of other hosts.
std::uint64_t between_hosts(Communicator& comm, ByteClass byte_class) {
  const auto matrix = ledger_matrix(comm, byte_class);
  std::uint64_t sum = 0;
  for (int from = 0; from < comm.size(); ++from)
    for (int to = 0; to < comm.size(); ++to)
      if (!comm.hosts().together(from, to)) sum += matrix[static_cast<std::size_t>(from * comm.size() + to)];
  return sum;
}

// 2 hosts x 2 ranks: an all-reduce of S bytes by a ring sends 1.5 S over each edge, of which two join hosts.
TEST_F(OverHosts, TheRingEntersEachHostOnceHoweverRanksAreNumbered) {
  for (const Seating& seating : {Seating{0, 0, 1, 1}, Seating{0, 1, 0, 1}, Seating{1, 0, 0, 1}}) {
    run(
        seating,
        [](Communicator& comm) {
          std::vector<float> data(40'000, 1);
          comm.run(sum_call(comm, data));
          EXPECT_EQ(data, std::vector<float>(40'000, 4));
          EXPECT_EQ(between_hosts(comm, ByteClass::payload), 3u * 160'000);
        },
        test_options(Algorithm::ring));
  }
}

// A ring that changes host at each step: all four edges join hosts, and 6 S go between them. No communicator
// takes this order.
TEST_F(OverHosts, TheWorstOrderOfARingSendsTwiceTheBytesOfOurs) {
  constexpr std::size_t count = 40'000;
  constexpr int ranks = 4;
  const std::vector<int> order{0, 2, 1, 3};  // with two ranks on each host, by number
  const TestHosts& hosts = TestHosts::shared(2);
  run_processes(ranks, [&](int rank) {
    hosts.enter(rank / 2);
    const Deadline deadline = Deadline::after(60s);
    MeetingPlace meeting;
    meeting.endpoint = {.unix_name = {}, .host = hosts.address(0), .port = 29'401};
    const auto rendezvous = meet(std::move(meeting), rank, ranks, deadline);
    const auto network = make_ucx_network(rank, ranks, "");
    network->set_addresses(rendezvous->exchange(network->address(), deadline));

    std::vector<float> data(count, 1);
    const Call call = all_reduce_call({rank, ranks}, data.data(), data.data(), count, DataType::f32, {});
    const auto ring = make_ring(call, {rank, ranks, *network, 32'768, 0, 0, order});
    while (!ring->step()) {
      if (!network->progress()) ::sched_yield();
      ASSERT_FALSE(deadline.passed());
    }
    network->flush(deadline);
    EXPECT_EQ(data, std::vector<float>(count, ranks));

    std::uint64_t mine = 0, all = 0;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer / 2 != rank / 2)
        mine += network->traffic().of(ByteClass::payload)[static_cast<std::size_t>(peer)];
    for (const auto& bytes : rendezvous->exchange(std::as_bytes(std::span(&mine, 1)), deadline)) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, bytes.data(), sizeof theirs);
      all += theirs;
    }
    EXPECT_EQ(all, 6u * count * sizeof(float));
  });
}

// By hierarchy: as many bytes as between two hosts of one rank.
TEST_F(OverHosts, AHierarchySendsEachByteBetweenHostsAsIfHostsWereRanks) {
  run({0, 1, 1, 0}, [](Communicator& comm) {
    std::vector<float> data(40'000, 1), all(160'000);
    comm.run(sum_call(comm, data));
    EXPECT_EQ(data, std::vector<float>(40'000, 4));
    EXPECT_EQ(between_hosts(comm, ByteClass::payload), 2u * 160'000);
    comm.ledger().reset();
    comm.run(all_gather_call(seat_of(comm), data.data(), all.data(), 40'000, DataType::f32));
    EXPECT_EQ(between_hosts(comm, ByteClass::payload), 4u * 160'000);
    comm.ledger().reset();
    comm.run(reduce_scatter_call(seat_of(comm), all.data(), data.data(), 40'000, DataType::f32, {}));
    EXPECT_EQ(between_hosts(comm, ByteClass::payload), 4u * 160'000);
  });
}

TEST_F(OverHosts, ATreeEntersEachHostOnce) {
  run({0, 1, 2, 0, 1, 1}, [](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      comm.ledger().reset();
      std::vector<float> data(2'000, static_cast<float>(comm.rank()));
      comm.run(broadcast_call(seat_of(comm), data.data(), data.data(), data.size(), DataType::f32, root));
      EXPECT_EQ(data, std::vector<float>(2'000, static_cast<float>(root)));
      EXPECT_EQ(comm.ledger().rows().begin()->first.algorithm, Algorithm::tree);
      EXPECT_EQ(between_hosts(comm, ByteClass::payload), 2u * 8'000);
    }
  });
}

// The same class of summation: one shot, doubling and direct differ in no bit.
TEST_F(OverHosts, SmallAllReducesHaveTheBitsOfADirectOne) {
  run({0, 0, 1, 1}, [](Communicator& comm) {
    const auto direct = comm.split(0, comm.rank(), test_options(Algorithm::direct));
    const auto doubling = comm.split(0, comm.rank(), test_options(Algorithm::doubling));
    const auto one_shot = comm.split(0, comm.rank(), test_options(Algorithm::one_shot));
    const double values[] = {49984, 30000, -49984, -30000.5};
    for (const DataType type : {DataType::f16, DataType::bf16, DataType::f32})
      for (const std::size_t count : {1u, 5u, 1'003u, 4'096u}) {
        TypedBuffer data(type, count), one(type, count), other(type, count);
        data.fill([&](std::size_t i) { return values[comm.rank()] / static_cast<double>(i % 7 + 1); });
        direct->run(all_reduce_call(seat_of(comm), data.data(), one.data(), count, type, {}));
        for (const auto& another : {doubling, one_shot}) {
          another->run(all_reduce_call(seat_of(comm), data.data(), other.data(), count, type, {}));
          EXPECT_EQ(std::memcmp(one.data(), other.data(), count * size_of(type)), 0)
              << name_of(type) << count;
        }
      }
    EXPECT_EQ(doubling->ledger().rows().count({"", CallKind::all_reduce, Algorithm::doubling}), 1u);
    EXPECT_EQ(one_shot->ledger().rows().count({"", CallKind::all_reduce, Algorithm::one_shot}), 1u);
    EXPECT_EQ(direct->ledger().rows().count({"", CallKind::all_reduce, Algorithm::direct}), 1u);
  });
}

// What `auto` takes where all ranks have one core, and that nothing but the messages depends on it.
TEST_F(OverHosts, RanksThatShareACoreDouble) {
  const TestHosts& hosts = TestHosts::shared(4);
  const Seating seating{0, 1, 2, 3};
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  run_processes(4, [&](int rank) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_numbers(allowed).front(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const auto comm = join_on_hosts(hosts, seating, rank);
    EXPECT_TRUE(comm->hosts().short_of_cores);
    const auto direct = comm->split(0, rank, test_options(Algorithm::direct));
    const double values[] = {49984, 30000, -49984, -30000.5};
    TypedBuffer data(DataType::f32, 1'003), sum(DataType::f32, 1'003), expected(DataType::f32, 1'003);
    data.fill([&](std::size_t i) { return values[rank] / static_cast<double>(i % 7 + 1); });
    comm->run(all_reduce_call(seat_of(*comm), data.data(), sum.data(), 1'003, DataType::f32, {}));
    direct->run(all_reduce_call(seat_of(*comm), data.data(), expected.data(), 1'003, DataType::f32, {}));
    EXPECT_EQ(std::memcmp(sum.data(), expected.data(), 1'003 * sizeof(float)), 0);
    EXPECT_EQ(comm->ledger().rows().count({"", CallKind::all_reduce, Algorithm::doubling}), 1u);
  });
}

// What it sends may be done already: a rank that slept now would not see it for long.
TEST_F(OverHosts, ACallThatBeginsHasMoved) {
  run({0, 1}, [](Communicator& comm) {
    std::vector<float> data(10, 1);
    const auto call = comm.start(sum_call(comm, data));
    EXPECT_TRUE(comm.progress());
    wait_for(*call);
    EXPECT_EQ(data, std::vector<float>(10, 2));
  });
}

TEST_F(OverHosts, AHierarchyHasAllOperators) {
  run({0, 0, 1, 1}, [](Communicator& comm) {
    struct Case {
      Operator op;
      double (*expected)(double base);  // of the inputs base, base + 1, base + 2, base + 3
    };
    const float two = 2;
    std::uint64_t factor = 0;
    std::memcpy(&factor, &two, sizeof two);
    for (const Case& one :
         {Case{{ReduceOp::sum, 0}, [](double b) { return 4 * b + 6; }},
          Case{{ReduceOp::avg, 0}, [](double b) { return b + 1.5; }},
          Case{{ReduceOp::premul_sum, factor}, [](double b) { return 8 * b + 12; }},
          Case{{ReduceOp::max, 0}, [](double b) { return b + 3; }},
          Case{{ReduceOp::min, 0}, [](double b) { return b; }},
          Case{{ReduceOp::prod, 0}, [](double b) { return b * (b + 1) * (b + 2) * (b + 3); }}}) {
      TypedBuffer data(DataType::f32, 10'003);
      data.fill([&](std::size_t i) { return static_cast<double>(i % 5) + comm.rank(); });
      comm.run(all_reduce_call(seat_of(comm), data.data(), data.data(), 10'003, DataType::f32, one.op));
      data.expect([&](std::size_t i) { return one.expected(static_cast<double>(i % 5)); });
    }
  });
}

// The first of them, by the rules of getaddrinfo from rank 1's address, is that of nobody.
TEST_F(OverHosts, ANameMayHaveAddressesThatNobodyHas) {
  const TestHosts hosts(2);
  for (int host = 0; host < 2; ++host)
    hosts.run(host,
              "mount -t tmpfs tmpfs /mnt && printf '10.91.0.3 meeting\\n10.91.0.1 meeting\\n' >/mnt/hosts && "
              "mount --bind /mnt/hosts /etc/hosts");
  run_processes(2, [&](int rank) {
    hosts.enter(rank);
    LaunchEnvironment launch{};
    launch.rank = rank;
    launch.size = 2;
    launch.master_address = "meeting";
    launch.master_port = 29'402;
    const auto comm = Communicator::create(launch, test_options());
    std::vector<float> data(10, 1);
    comm->run(sum_call(*comm, data));
    EXPECT_EQ(data, std::vector<float>(10, 2));
  });
}

TEST_F(OverHosts, AnIdOfAnotherHostIsRefusedAtOnce) {
  const TestHosts& hosts = TestHosts::shared(2);
  rondoUniqueId id;
  ::unsetenv("RONDO_COMM_ID");
  ASSERT_EQ(rondoGetUniqueId(&id), rondoSuccess) << rondoGetLastError(nullptr);
  EXPECT_EQ(rondoCheckUniqueId(id), rondoSuccess);
  run_processes(1, [&](int) {
    hosts.enter(1);
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.timeout_ms = 0;  // never
    rondoComm_t comm = nullptr;
    EXPECT_EQ(rondoCommInitRankConfig(&comm, 2, id, 1, &config), rondoInvalidUsage);
    EXPECT_NE(std::string(rondoGetLastError(nullptr)).find("made on another host"), std::string::npos)
        << rondoGetLastError(nullptr);
    EXPECT_EQ(rondoCheckUniqueId(id), rondoInvalidUsage);
  });
}

// Sets `late` apart for a barrier that no other rank may leave before it comes.
void expect_held_back(Communicator& comm, int late) {
  // The hosts are of one machine, and have one clock.
  const auto now = [] {
    return static_cast<std::int64_t>(Deadline::Clock::now().time_since_epoch().count());
  };
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (comm.rank() == late) std::this_thread::sleep_for(30ms);
  std::int64_t came = now();
  comm.run(barrier_call());
  std::int64_t left = now();
  std::vector<std::int64_t> all_came(ranks), all_left(ranks);
  comm.run(all_gather_call(seat_of(comm), &came, all_came.data(), 1, DataType::i64));
  comm.run(all_gather_call(seat_of(comm), &left, all_left.data(), 1, DataType::i64));
  EXPECT_GE(*std::min_element(all_left.begin(), all_left.end()),
            *std::max_element(all_came.begin(), all_came.end()))
      << comm.size() << " ranks, late: " << late;
}

// Five ranks, and four, which meet in pairs.
TEST_F(OverHosts, BarriersHoldBackWhoComesEarly) {
  for (const Seating& seating : {Seating{0, 0, 1, 2, 2}, Seating{0, 1, 2, 3}, Seating{0, 0, 1, 1}})
    run(seating, [](Communicator& comm) {
      for (int late = 0; late < comm.size(); ++late) expect_held_back(comm, late);
    });
}

// Whoever waits for other hosts sleeps at the network, and there its own host's ranks wake it.
TEST_F(OverHosts, AWaitingRankSleepsUntilItsOwnHostWakesIt) {
  run({0, 0, 1}, [](Communicator& comm) {
    constexpr int messages = 20;
    constexpr auto pause = 10ms;
    comm.run(barrier_call());
    if (comm.rank() == 2) return comm.run(barrier_call());
    const auto start = Deadline::Clock::now();
    rusage before{}, after{};
    ::getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < messages; ++i) {
      float word = 0;
      if (comm.rank() == 0) {
        std::this_thread::sleep_for(pause);
        comm.run(send_call(seat_of(comm), &word, 1, DataType::f32, 1));
      } else {
        comm.run(receive_call(seat_of(comm), &word, 1, DataType::f32, 0));
      }
    }
    ::getrusage(RUSAGE_THREAD, &after);
    const auto time = Deadline::Clock::now() - start;
    // Without a wake each message would wait for the next look at its rank's health, 50 ms away.
    EXPECT_LT(time, 2 * messages * pause);
    // Looking for its neighbours now and then, 2,000 times a second, it would sleep 20 times for each
    // message.
    if (comm.rank() == 1) {
      EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 5 * messages);
    }
    comm.run(barrier_call());
  });
}

TEST_F(OverHosts, MessagesOfAllSizesGoBothWays) {
  run({0, 0, 1}, [](Communicator& comm) {
    for (const std::size_t count : {0u, 1u, 1000u, 1'000'000u}) {
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        TypedBuffer out(DataType::i32, count), in(DataType::i32, count);
        out.fill([&](std::size_t i) { return static_cast<double>(i % 1000) + 1000 * comm.rank(); });
        Call both = send_call(seat_of(comm), out.data(), count, DataType::i32, peer);
        join(both, receive_call(seat_of(comm), in.data(), count, DataType::i32, peer));
        comm.run(std::move(both));
        in.expect([&](std::size_t i) { return static_cast<double>(i % 1000) + 1000 * peer; });
      }
    }
  });
}

TEST_F(OverHosts, SplitsMakeCommunicatorsWithinAndAcrossHosts) {
  run({0, 0, 1, 1, 2, 2}, [](Communicator& comm) {
    const int rank = comm.rank();
    const auto within = comm.split(rank / 2, rank, test_options());
    const auto across = comm.split(rank % 2, -rank, test_options());
    EXPECT_EQ(within->hosts().ranks.size(), 1u);
    EXPECT_EQ(across->hosts().ranks.size(), 3u);
    EXPECT_EQ(across->rank(), 2 - rank / 2);
    EXPECT_EQ(comm.split(rank == 3 ? -1 : 0, rank, test_options()) == nullptr, rank == 3);
    std::vector<float> data(5000, static_cast<float>(rank));
    within->run(sum_call(*within, data));
    EXPECT_EQ(data[4999], static_cast<float>(4 * (rank / 2) + 1));
    across->run(sum_call(*across, data));
    EXPECT_EQ(data[4999], 15.f);
  });
}

TEST_F(OverHosts, AnIdWithAnAddressJoinsHosts) {
  const TestHosts& hosts = TestHosts::shared(2);
  ::setenv("RONDO_COMM_ID", (hosts.address(0) + ":29455").c_str(), 1);
  rondoUniqueId id;
  ASSERT_EQ(rondoGetUniqueId(&id), rondoSuccess) << rondoGetLastError(nullptr);
  run_processes(3, [&](int rank) {
    hosts.enter(rank == 2 ? 1 : 0);
    rondoComm_t comm = nullptr;
    ASSERT_EQ(rondoCommInitRank(&comm, 3, id, rank), rondoSuccess) << rondoGetLastError(nullptr);
    float data = static_cast<float>(rank);
    EXPECT_EQ(rondoAllReduce(&data, &data, 1, rondoFloat32, rondoSum, comm, nullptr), rondoSuccess);
    EXPECT_EQ(data, 3.f);
    EXPECT_EQ(rondoCommDestroy(comm), rondoSuccess);
  });
  for (const char* bad : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x"}) {
    ::setenv("RONDO_COMM_ID", bad, 1);
    EXPECT_EQ(rondoGetUniqueId(&id), rondoInvalidArgument) << bad;
  }
  ::unsetenv("RONDO_COMM_ID");
}

// ---- calls that differ ----

CommunicatorOptions checking() {
  CommunicatorOptions options = test_options();
  options.settings.check = true;
  return options;
}

TEST_F(OverHosts, ACheckTellsAllInWhatTheirCallsDifferAndAllIsWellAgain) {
  run(
      {0, 0, 1},
      [](Communicator& comm) {
        std::vector<float> data(comm.rank() == 1 ? 4000 : 4001);
        const std::string text = error_message([&] { comm.run(sum_call(comm, data)); });
        EXPECT_NE(text.find("count differs between ranks: ranks 0, 2: 4001; rank 1: 4000"), std::string::npos)
            << text;
        std::vector<float> same(100, 1);
        comm.run(sum_call(comm, same));
        EXPECT_EQ(same, std::vector<float>(100, 3));
      },
      checking());
}

TEST_F(OverHosts, WithoutACheckSizesThatDifferAreAnErrorAndNoWrongSum) {
  CommunicatorOptions options = test_options();
  options.settings.timeout = 2s;
  run(
      {0, 1},
      [](Communicator& comm) {
        std::vector<float> data(comm.rank() == 1 ? 4000 : 4100);
        const std::string text = error_message([&] { comm.run(sum_call(comm, data)); });
        EXPECT_NE(text.find("the ranks make different calls"), std::string::npos) << text;
      },
      options);
}

// ---- devices ----

TEST_F(OverHosts, ADeviceThatIsNotThereIsAnErrorWithTheChoices) {
  const TestHosts& hosts = TestHosts::shared(2);
  run_processes(2, [&](int rank) {
    CommunicatorOptions options = test_options();
    options.settings.net_devices = rank == 1 ? "eth7" : "eth0";
    const std::string text = error_message([&] { join_on_hosts(hosts, {0, 1}, rank, options); });
    for (const char* part : {"rank 1", "RONDO_NET_DEVICES=\"eth7\"", "eth0", "lo"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  });
  CommunicatorOptions options = test_options();
  options.settings.net_devices = "eth0";
  run(
      {0, 1}, [](Communicator& comm) { comm.run(barrier_call()); }, options);
}

// ---- the models ----

// Numbers that forked ranks leave for the test to compare.
class Notes {
 public:
  explicit Notes(std::size_t count)
      : bytes_(count * sizeof(double)),
        numbers_(static_cast<double*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Notes() { ::munmap(numbers_, bytes_); }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  double* of(int rank, std::size_t each) { return numbers_ + static_cast<std::size_t>(rank) * each; }
  bool operator==(const Notes& other) const { return std::memcmp(numbers_, other.numbers_, bytes_) == 0; }

 private:
  std::size_t bytes_;
  double* numbers_;
};

double checksum(std::span<const float> values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(i % 97 + 1);
  return sum;
}

constexpr std::size_t notes_a_rank = 8;

void train_both_models(Communicator& comm, double* notes) {
  Qwen3Config config;
  config.hidden_size = 64, config.intermediate_size = 96, config.num_hidden_layers = 2;
  config.num_attention_heads = 4, config.num_key_value_heads = 2, config.head_dim = 16,
  config.vocab_size = 128;
  Qwen3 model(comm.shared_from_this(), config, {});
  model.initialize_fresh(1);
  std::vector<std::int64_t> ids(16);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int64_t>((i * 37 + static_cast<std::size_t>(comm.rank()) * 11) % 128);
  for (std::int64_t step = 1; step <= 3; ++step) {
    *notes++ = model.forward(ids, {2, 8});
    model.zero_gradients();
    model.backward();
    model.step({}, step);
  }
  *notes++ = checksum(model.root().gradient_shard(0));

  MegatronConfig tp;
  tp.batch = 2, tp.sequence = 8, tp.hidden = 32, tp.heads = 4;
  std::vector<MegatronWeights> layers;
  layers.push_back(generated_shard(tp, 0, comm.rank(), comm.size()));
  MegatronModel block(comm, tp, std::move(layers));
  const std::vector<float> x = generated_input(tp, "x");
  const std::span<const float> out = block.forward(x);
  *notes++ = checksum(out);
  const std::vector<float> gradient(out.size(), 0.5f);
  *notes++ = checksum(block.backward(gradient));
}

TEST_F(OverHosts, BothModelsGiveTheSameBitsOnTwoHostsAsOnOne) {
  Notes local(4 * notes_a_rank), hosts(4 * notes_a_rank);
  const CommunicatorOptions ring = test_options(Algorithm::ring);
  run_ranks(
      4, [&](Communicator& comm) { train_both_models(comm, local.of(comm.rank(), notes_a_rank)); }, ring);
  run(
      {0, 0, 1, 1}, [&](Communicator& comm) { train_both_models(comm, hosts.of(comm.rank(), notes_a_rank)); },
      ring);
  EXPECT_NE(local.of(0, 0)[0], 0);
  EXPECT_TRUE(local == hosts);
}

// ---- the second witness ----

class WitnessOnHosts : public OverHosts, public ::testing::WithParamInterface<Seating> {};

TEST_P(WitnessOnHosts, CountersOfTheKernelAreExplainedByTheLedger) {
  // Hosts of its own: others' farewells would be in the counters.
  const TestHosts hosts(hosts_of(GetParam()));
  run_on_hosts(hosts, GetParam(), [](Communicator& comm) {
    Witness witness(comm);
    for (const std::size_t count : {1'000'003u, 10'000u, 300'000u}) {
      std::vector<float> data(count, 1), all(count * static_cast<std::size_t>(comm.size()));
      comm.run(sum_call(comm, data));
      comm.run(all_gather_call(seat_of(comm), data.data(), all.data(), count, DataType::f32));
    }
    witness.stop();
    for (const WitnessRow& row : witness.rows()) {
      EXPECT_GT(row.ledger, 10'000'000u);
      EXPECT_LT(row.unexplained(), 0.03)
          << "host " << row.host << (row.direction == WitnessRow::Direction::sent ? " sent: " : " received: ")
          << "ledger " << row.ledger << ", packets " << row.packets << ", counter " << row.counter;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, WitnessOnHosts,
                         ::testing::Values(Seating{0, 1}, Seating{0, 0, 1, 1}, Seating{0, 1, 1, 2, 2, 2},
                                           Seating{0, 1, 2, 3}),
                         [](const auto& info) { return fmt::format("{}", fmt::join(info.param, "")); });

// Runs `rondo ledger` with these arguments as a launcher would on four ranks of two hosts. What rank 0
// prints.
std::string ledger_on_hosts(const TestHosts& hosts, const Seating& seating, const char* argument) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd output(ends[0]);
  Fd input(ends[1]);
  std::string text;
  std::jthread reader([&] {
    char part[4096];
    for (ssize_t got; (got = ::read(output.get(), part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(got));
  });
  run_processes(static_cast<int>(seating.size()), [&](int rank) {
    hosts.enter(seating[static_cast<std::size_t>(rank)]);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(seating.size()).c_str(), 1);
    ::setenv("MASTER_ADDR", hosts.address(seating.front()).c_str(), 1);
    ::setenv("RONDO_MASTER_PORT", "29500", 1);
    ::dup2(input.get(), STDOUT_FILENO);
    ::execl(std::getenv("RONDO_PROGRAM"), "rondo", "ledger", "--witness", argument, nullptr);
    ADD_FAILURE() << "no program to run";
  });
  input.reset();
  reader.join();
  return text;
}

TEST_F(OverHosts, TheLedgerPrintsItsWitness) {
  const TestHosts hosts(2);
  const auto json = nlohmann::json::parse(ledger_on_hosts(hosts, {0, 0, 1, 1}, "--json"));
  for (const char* model : {"qwen3 fsdp", "megatron tp"}) {
    ASSERT_EQ(json["witness"][model].size(), 4u);
    for (const auto& row : json["witness"][model]) EXPECT_LT(row["unexplained"].get<double>(), 0.03) << row;
  }
  const std::string text = ledger_on_hosts(hosts, {0, 0}, "--algo=ring");
  EXPECT_NE(text.find("there is nothing to witness"), std::string::npos) << text;
}

}  // namespace
}  // namespace rondo::test
