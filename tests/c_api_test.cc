// Every function of rondo.h, as a program in C would call it: what they do, and what they say to nonsense.
#include <fcntl.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

#include "include/rondo/rondo.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

constexpr int size = 3;

// A body run by three ranks, threads of this process, each with its handle.
void with_comms(const std::function<void(rondoComm_t, int)>& body) {
  rondoComm_t comms[size];
  ASSERT_EQ(rondoCommInitAll(comms, size, nullptr), rondoSuccess) << rondoGetLastError(nullptr);
  run_threads(size, [&](int rank) { body(comms[rank], rank); });
  for (rondoComm_t comm : comms) EXPECT_EQ(rondoCommDestroy(comm), rondoSuccess);
}

#define ASSERT_WELL(call) ASSERT_EQ((call), rondoSuccess) << rondoGetLastError(nullptr)

// The call fails so, and says this.
void expect_error(rondoResult_t result, rondoResult_t expected, const char* part) {
  EXPECT_EQ(result, expected);
  EXPECT_NE(std::strstr(rondoGetLastError(nullptr), part), nullptr) << rondoGetLastError(nullptr);
}

std::vector<float> numbers(int rank, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<float>(i % 100) + 1000 * static_cast<float>(rank);
  return all;
}

TEST(CApi, TellsItsVersionAndItsErrors) {
  int version = 0;
  EXPECT_EQ(rondoGetVersion(&version), rondoSuccess);
  EXPECT_EQ(version, RONDO_VERSION_CODE);
  expect_error(rondoGetVersion(nullptr), rondoInvalidArgument, "rondoGetVersion: version is null");
  for (int code = 0; code < rondoNumResults; ++code)
    EXPECT_STRNE(rondoGetErrorString(static_cast<rondoResult_t>(code)), "unknown result code");
  EXPECT_STREQ(rondoGetErrorString(rondoNumResults), "unknown result code");
}

TEST(CApi, NumbersAreThoseOfNccl) {
  EXPECT_EQ(rondoInt8, 0);
  EXPECT_EQ(rondoUint64, 5);
  EXPECT_EQ(rondoFloat16, 6);
  EXPECT_EQ(rondoFloat32, 7);
  EXPECT_EQ(rondoFloat64, 8);
  EXPECT_EQ(rondoBfloat16, 9);
  EXPECT_EQ(rondoSum, 0);
  EXPECT_EQ(rondoProd, 1);
  EXPECT_EQ(rondoMax, 2);
  EXPECT_EQ(rondoMin, 3);
  EXPECT_EQ(rondoAvg, 4);
  EXPECT_EQ(sizeof(rondoUniqueId), 128u);
}

TEST(CApi, KnowsRankAndCount) {
  with_comms([](rondoComm_t comm, int rank) {
    int mine = -1, count = -1;
    rondoResult_t error = rondoInternalError;
    ASSERT_WELL(rondoCommUserRank(comm, &mine));
    ASSERT_WELL(rondoCommCount(comm, &count));
    ASSERT_WELL(rondoCommGetAsyncError(comm, &error));
    EXPECT_EQ(mine, rank);
    EXPECT_EQ(count, size);
    EXPECT_EQ(error, rondoSuccess);
    ASSERT_WELL(rondoCommSetTimeout(comm, 30'000));
    ASSERT_WELL(rondoBarrier(comm, nullptr));
    ASSERT_WELL(rondoCommFinalize(comm));
  });
}

TEST(CApi, EveryCollectiveDoesItsPart) {
  with_comms([](rondoComm_t comm, int rank) {
    constexpr std::size_t count = 1000;
    const auto r = static_cast<std::size_t>(rank);
    const std::vector<float> mine = numbers(rank, count * size);
    std::vector<float> got(count * size);
    const auto at = [&](int from, std::size_t i) { return numbers(from, count * size)[i]; };

    ASSERT_WELL(rondoAllReduce(mine.data(), got.data(), count, rondoFloat32, rondoSum, comm, nullptr));
    EXPECT_EQ(got[17], 3 * 17 + 3000);
    ASSERT_WELL(rondoAllReduce(mine.data(), got.data(), count, rondoFloat32, rondoMax, comm, nullptr));
    EXPECT_EQ(got[17], 2017);
    ASSERT_WELL(rondoAllGather(mine.data(), got.data(), count, rondoFloat32, comm, nullptr));
    EXPECT_EQ(got[2 * count + 5], at(2, 5));
    ASSERT_WELL(rondoReduceScatter(mine.data(), got.data(), count, rondoFloat32, rondoAvg, comm, nullptr));
    EXPECT_EQ(got[7], at(1, r * count + 7));
    ASSERT_WELL(rondoBroadcast(mine.data(), got.data(), count, rondoFloat32, 1, comm, nullptr));
    EXPECT_EQ(got[9], at(1, 9));
    ASSERT_WELL(rondoReduce(mine.data(), rank == 2 ? got.data() : nullptr, count, rondoFloat32, rondoMin, 2,
                            comm, nullptr));
    if (rank == 2) {
      EXPECT_EQ(got[9], at(0, 9));
    }
    ASSERT_WELL(rondoAlltoAll(mine.data(), got.data(), count, rondoFloat32, comm, nullptr));
    EXPECT_EQ(got[count + 3], at(1, r * count + 3));
    ASSERT_WELL(
        rondoGather(mine.data(), rank == 0 ? got.data() : nullptr, count, rondoFloat32, 0, comm, nullptr));
    if (rank == 0) {
      EXPECT_EQ(got[2 * count + 3], at(2, 3));
    }
    ASSERT_WELL(
        rondoScatter(rank == 1 ? mine.data() : nullptr, got.data(), count, rondoFloat32, 1, comm, nullptr));
    EXPECT_EQ(got[3], at(1, r * count + 3));

    const std::size_t counts[size] = {10, 0, 500};
    ASSERT_WELL(rondoAllGatherV(mine.data(), got.data(), counts, rondoFloat32, comm, nullptr));
    EXPECT_EQ(got[10], at(2, 0));
    ASSERT_WELL(rondoReduceScatterV(mine.data(), got.data(), counts, rondoFloat32, rondoSum, comm, nullptr));
    if (rank == 2) {
      EXPECT_EQ(got[499], at(0, 509) + at(1, 509) + at(2, 509));
    }

    if (rank == 0) {
      ASSERT_WELL(rondoSend(mine.data(), count, rondoFloat32, 2, comm, nullptr));
    }
    if (rank == 2) {
      ASSERT_WELL(rondoRecv(got.data(), count, rondoFloat32, 0, comm, nullptr));
    }
    if (rank == 2) {
      EXPECT_EQ(got[999], at(0, 999));
    }
  });
}

std::string ledger_of(rondoComm_t comm) {
  std::size_t room = 0;
  EXPECT_EQ(rondoLedgerJson(comm, nullptr, &room), rondoSuccess);
  std::string text(room, ' ');
  EXPECT_EQ(rondoLedgerJson(comm, text.data(), &room), rondoSuccess);
  return text;
}

TEST(CApi, RegistersMemory) {
  with_comms([](rondoComm_t comm, int) {
    constexpr std::size_t count = 8 * 4096;
    // Whole pages, which no other thread's memory shares.
    const std::unique_ptr<float[], decltype(&std::free)> memory(
        static_cast<float*>(std::aligned_alloc(4096, count * sizeof(float))), std::free);
    float* const data = memory.get();
    std::fill_n(data, count, 1.0f);
    const auto reduce = [&] {
      ASSERT_WELL(rondoAllReduce(data, data, count, rondoFloat32, rondoSum, comm, nullptr));
      EXPECT_EQ(data[count - 1], size);
      ASSERT_WELL(rondoBarrier(comm, nullptr));
      std::fill_n(data, count, 1.0f);
      ASSERT_WELL(rondoBarrier(comm, nullptr));
    };
    void* handle = nullptr;
    ASSERT_WELL(rondoCommRegister(comm, data, count * sizeof(float), &handle));
    reduce();
    EXPECT_EQ(ledger_of(comm).find("\"windows\""), std::string::npos) << "registered without a flag";
    ASSERT_WELL(rondoCommDeregister(comm, handle));
    expect_error(rondoCommDeregister(comm, handle), rondoInvalidArgument, "expected one that was registered");

    rondoWindow_t window = nullptr;
    const auto exchange = [&](void* what, std::size_t bytes, int flags) {
      return rondoCommWindowRegister(comm, what, bytes, &window, flags);
    };
    ASSERT_WELL(exchange(data, count * sizeof(float), RONDO_WIN_EXCHANGE_PAGES));
    reduce();
    EXPECT_NE(ledger_of(comm).find("\"windows\""), std::string::npos);
    rondoWindow_t part = nullptr;
    ASSERT_WELL(rondoCommWindowRegister(comm, data + 10, 100, &part, RONDO_WIN_EXCHANGE_PAGES));
    ASSERT_WELL(rondoCommWindowDeregister(comm, part));
    reduce();
    ASSERT_WELL(rondoCommWindowDeregister(comm, window));
    reduce();

    expect_error(exchange(nullptr, 8, RONDO_WIN_DEFAULT), rondoInvalidArgument, "buff is null");
    expect_error(exchange(data, 0, RONDO_WIN_DEFAULT), rondoInvalidArgument, "size 0");
    expect_error(exchange(data, 8, 7), rondoInvalidArgument, "winFlags 0x7");
    expect_error(exchange(__builtin_frame_address(0), 8, RONDO_WIN_EXCHANGE_PAGES), rondoInvalidArgument,
                 "this thread's stack");
    expect_error(rondoCommRegister(comm, data, 8, nullptr), rondoInvalidArgument,
                 "rondoCommRegister: handle is null");
  });
}

// Recovery from a failure aborts the communicator first.
TEST(CApi, RegisteredMemoryOutlivesItsCommunicator) {
  rondoComm_t comm;
  ASSERT_WELL(rondoCommInitAll(&comm, 1, nullptr));
  constexpr std::size_t bytes = 8 * 4096;
  const std::unique_ptr<char[], decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(4096, bytes)), std::free);
  std::fill_n(memory.get(), bytes, 'x');
  rondoWindow_t window;
  ASSERT_WELL(rondoCommWindowRegister(comm, memory.get(), bytes, &window, RONDO_WIN_EXCHANGE_PAGES));
  ASSERT_WELL(rondoCommAbort(comm));
  ASSERT_WELL(rondoCommWindowDeregister(comm, window));
  EXPECT_EQ(memory[bytes - 1], 'x');
  ASSERT_WELL(rondoCommInitAll(&comm, 1, nullptr));
  expect_error(rondoCommWindowDeregister(comm, window), rondoInvalidArgument, "win ");
  ASSERT_WELL(rondoCommDestroy(comm));
}

TEST(CApi, FactorsMakeOperators) {
  with_comms([](rondoComm_t comm, int) {
    float half = 0.5f, value = 6, sum = 0;
    rondoRedOp_t op;
    ASSERT_WELL(rondoRedOpCreatePreMulSum(&op, &half, rondoFloat32, rondoScalarHostImmediate, comm));
    EXPECT_GE(op, rondoNumOps);
    ASSERT_WELL(rondoAllReduce(&value, &sum, 1, rondoFloat32, op, comm, nullptr));
    EXPECT_EQ(sum, 9);
    double wrong = 1;
    expect_error(rondoAllReduce(&wrong, &wrong, 1, rondoFloat64, op, comm, nullptr), rondoInvalidArgument,
                 "was made for f32, and is used with f64");
    ASSERT_WELL(rondoRedOpDestroy(op, comm));
    expect_error(rondoRedOpDestroy(op, comm), rondoInvalidArgument, "expected one made by");
    expect_error(rondoAllReduce(&value, &sum, 1, rondoFloat32, op, comm, nullptr), rondoInvalidArgument,
                 "op 5");
    expect_error(rondoRedOpDestroy(rondoSum, comm), rondoInvalidArgument, "op 0");
    expect_error(rondoRedOpCreatePreMulSum(&op, nullptr, rondoFloat32, rondoScalarHostImmediate, comm),
                 rondoInvalidArgument, "scalar is null");
  });
}

// ---- nonsense ----

TEST(CApi, NonsenseIsAnErrorThatNamesTheArgument) {
  with_comms([](rondoComm_t comm, int rank) {
    float buffer[16] = {};
    const auto f32 = rondoFloat32;
    const auto invalid = rondoInvalidArgument;
    expect_error(rondoAllReduce(nullptr, buffer, 4, f32, rondoSum, comm, nullptr), invalid,
                 "rondoAllReduce: sendbuff is null");
    expect_error(rondoAllReduce(buffer, nullptr, 4, f32, rondoSum, comm, nullptr), invalid,
                 "recvbuff is null");
    expect_error(rondoAllGather(buffer, nullptr, 4, f32, comm, nullptr), invalid, "recvbuff is null");
    expect_error(rondoReduceScatter(nullptr, buffer, 4, f32, rondoSum, comm, nullptr), invalid,
                 "sendbuff is null");
    expect_error(rondoBroadcast(buffer, nullptr, 4, f32, 0, comm, nullptr), invalid, "recvbuff is null");
    expect_error(rondoReduce(nullptr, buffer, 4, f32, rondoSum, 0, comm, nullptr), invalid,
                 "sendbuff is null");
    expect_error(rondoGather(nullptr, buffer, 4, f32, 0, comm, nullptr), invalid, "sendbuff is null");
    expect_error(rondoScatter(buffer, nullptr, 4, f32, 0, comm, nullptr), invalid, "recvbuff is null");
    expect_error(rondoAlltoAll(buffer, nullptr, 4, f32, comm, nullptr), invalid, "recvbuff is null");
    expect_error(rondoAlltoAll(buffer, buffer, 4, f32, comm, nullptr), invalid, "not work in place");
    expect_error(rondoSend(nullptr, 4, f32, 0, comm, nullptr), invalid, "sendbuff is null");
    expect_error(rondoRecv(nullptr, 4, f32, 0, comm, nullptr), invalid, "recvbuff is null");
    expect_error(rondoAllGatherV(buffer, buffer, nullptr, f32, comm, nullptr), invalid, "counts is null");
    expect_error(rondoReduceScatterV(buffer, buffer, nullptr, f32, rondoSum, comm, nullptr), invalid,
                 "counts is null");
    expect_error(rondoBroadcast(buffer, buffer, 4, f32, 3, comm, nullptr), invalid,
                 "root 3: expected a rank from 0 to 2");
    expect_error(rondoReduce(buffer, buffer, 4, f32, rondoSum, -1, comm, nullptr), invalid, "root -1");
    expect_error(rondoGather(buffer, buffer, 4, f32, 7, comm, nullptr), invalid, "root 7");
    expect_error(rondoScatter(buffer, buffer, 4, f32, 7, comm, nullptr), invalid, "root 7");
    expect_error(rondoSend(buffer, 4, f32, 3, comm, nullptr), invalid, "peer 3");
    expect_error(rondoRecv(buffer, 4, f32, -1, comm, nullptr), invalid, "peer -1");
    expect_error(rondoAllReduce(buffer, buffer, 4, rondoNumTypes, rondoSum, comm, nullptr), invalid,
                 "type 10: expected 0 to 9");
    expect_error(rondoAllReduce(buffer, buffer, 4, f32, rondoNumOps, comm, nullptr), invalid,
                 "op 5: expected 0 to 4");
    expect_error(rondoAllReduce(buffer, buffer, 4, f32, rondoMaxRedOp, comm, nullptr), invalid,
                 "op 2147483647");
    expect_error(rondoAllReduce(buffer, buffer, SIZE_MAX / 2, f32, rondoSum, comm, nullptr), invalid,
                 "address space");
    expect_error(rondoCommCount(comm, nullptr), invalid, "count is null");
    expect_error(rondoCommUserRank(comm, nullptr), invalid, "rank is null");
    expect_error(rondoCommGetAsyncError(comm, nullptr), invalid, "async_error is null");
    expect_error(rondoCommSetTimeout(comm, -1), invalid, "timeout_ms -1");
    expect_error(rondoCommSetTimeout(comm, INT64_MAX), invalid, "timeout_ms 9223372036854775807");
    expect_error(rondoCommSplit(comm, 0, 0, nullptr, nullptr), invalid, "newcomm is null");
    expect_error(rondoLedgerScopeBegin(comm, nullptr), invalid, "name is null");
    expect_error(rondoLedgerMatrix(comm, rondoLedgerPayload, nullptr), invalid, "matrix is null");
    expect_error(rondoLedgerJson(comm, nullptr, nullptr), invalid, "size is null");
    expect_error(rondoLedgerScopeEnd(comm), rondoInvalidUsage, "no open scope");
    // None of it reached the other ranks.
    float value = 1;
    ASSERT_WELL(rondoAllReduce(&value, &value, 1, f32, rondoSum, comm, nullptr));
    EXPECT_EQ(value, 3) << "rank " << rank;
  });
}

TEST(CApi, HandlesThatNeverWereAreFoundOut) {
  int number = 0;
  float buffer[4] = {};
  for (void* nothing : {static_cast<void*>(nullptr), static_cast<void*>(&number),
                        reinterpret_cast<void*>(~std::uintptr_t{0})}) {
    const auto comm = static_cast<rondoComm_t>(nothing);
    rondoResult_t error;
    rondoComm_t child;
    std::size_t room = 0;
    std::uint64_t matrix[9];
    rondoRedOp_t op;
    void* handle;
    rondoWindow_t window;
    const rondoResult_t results[] = {
        rondoCommCount(comm, &number),
        rondoCommUserRank(comm, &number),
        rondoCommGetAsyncError(comm, &error),
        rondoCommSplit(comm, 0, 0, &child, nullptr),
        rondoCommFinalize(comm),
        rondoCommDestroy(comm),
        rondoCommAbort(comm),
        rondoCommSetTimeout(comm, 1),
        rondoBarrier(comm, nullptr),
        rondoAllReduce(buffer, buffer, 1, rondoFloat32, rondoSum, comm, nullptr),
        rondoRedOpCreatePreMulSum(&op, buffer, rondoFloat32, rondoScalarHostImmediate, comm),
        rondoRedOpDestroy(rondoSum, comm),
        rondoCommRegister(comm, buffer, sizeof buffer, &handle),
        rondoCommDeregister(comm, nullptr),
        rondoCommWindowRegister(comm, buffer, sizeof buffer, &window, RONDO_WIN_DEFAULT),
        rondoCommWindowDeregister(comm, nullptr),
        rondoLedgerScopeBegin(comm, "x"),
        rondoLedgerScopeEnd(comm),
        rondoLedgerMatrix(comm, rondoLedgerPayload, matrix),
        rondoLedgerJson(comm, nullptr, &room),
        rondoLedgerReset(comm)};
    for (const rondoResult_t result : results) EXPECT_EQ(result, rondoInvalidArgument);
    const auto stream = static_cast<rondoStream_t>(nothing);
    EXPECT_EQ(rondoStreamSynchronize(stream), rondoInvalidArgument);
    EXPECT_EQ(rondoStreamQuery(stream), rondoInvalidArgument);
    EXPECT_EQ(rondoStreamDestroy(stream), rondoInvalidArgument);
  }
  expect_error(rondoStreamCreate(nullptr), rondoInvalidArgument, "stream is null");
}

TEST(CApi, TheStartChecksWhatItIsGiven) {
  rondoUniqueId id;
  rondoComm_t comm;
  expect_error(rondoGetUniqueId(nullptr), rondoInvalidArgument, "id is null");
  ASSERT_WELL(rondoGetUniqueId(&id));
  expect_error(rondoCommInitRank(nullptr, 1, id, 0), rondoInvalidArgument, "comm is null");
  expect_error(rondoCommInitRank(&comm, 0, id, 0), rondoInvalidArgument, "nranks 0");
  expect_error(rondoCommInitRank(&comm, 2, id, 2), rondoInvalidArgument, "rank 2");
  expect_error(rondoCommInitRank(&comm, 2, id, -1), rondoInvalidArgument, "rank -1");
  expect_error(rondoCommInitAll(nullptr, 2, nullptr), rondoInvalidArgument, "comms is null");
  expect_error(rondoCommInitAll(&comm, 0, nullptr), rondoInvalidArgument, "ndev 0");
  rondoUniqueId zeros;
  std::memset(&zeros, 0, sizeof zeros);
  expect_error(rondoCommInitRank(&comm, 2, zeros, 0), rondoInvalidArgument, "not made by rondoGetUniqueId");
  rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
  const auto with = [&] { return rondoCommInitRankConfig(&comm, 1, id, 0, &config); };
  config.size = 3;
  expect_error(with(), rondoInvalidArgument, "config size 3");
  config = RONDO_CONFIG_INITIALIZER;
  config.timeout_ms = -2;
  expect_error(with(), rondoInvalidArgument, "timeout_ms -2");
  config = RONDO_CONFIG_INITIALIZER;
  config.strict = 2;
  expect_error(with(), rondoInvalidArgument, "config strict 2");
  config = RONDO_CONFIG_INITIALIZER;
  config.algorithm = "bush";
  expect_error(with(), rondoInvalidArgument,
               "config algorithm=\"bush\": expected auto, ring, direct, one-shot, doubling or tree");
  config = RONDO_CONFIG_INITIALIZER;
  config.algorithm = "ring";
  config.name = "alone";
  config.strict = 1;
  config.timeout_ms = 1000;
  ASSERT_WELL(with());
  ASSERT_WELL(rondoBarrier(comm, nullptr));
  ASSERT_WELL(rondoCommDestroy(comm));
}

TEST(CApi, NamesStandInMessages) {
  rondoUniqueId id;
  ASSERT_WELL(rondoGetUniqueId(&id));
  run_threads(2, [&](int rank) {
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.name = "data parallel";
    rondoComm_t comm;
    ASSERT_WELL(rondoCommInitRankConfig(&comm, 2, id, rank, &config));
    float value = 1;
    expect_error(rondoAllReduce(&value, &value, rank == 0 ? 1 : 0, rondoFloat32, rondoSum, comm, nullptr),
                 rondoInvalidUsage, "(data parallel)");
    ASSERT_WELL(rondoCommDestroy(comm));
  });
}

TEST(CApi, InitEnvReadsTheLaunchersWorld) {
  rondoComm_t comm;
  expect_error(rondoCommInitEnv(nullptr, nullptr), rondoInvalidArgument, "comm is null");
  expect_error(rondoCommInitEnv(&comm, nullptr), rondoInvalidArgument, "WORLD_SIZE is not set");
  const Fd listener = listen_on({.unix_name = {}, .host = "127.0.0.1", .port = 0});
  ::fcntl(listener.get(), F_SETFL, 0);  // blocking, as other launchers may make it
  const std::string port = std::to_string(bound_port(listener));
  run_processes(2, [&](int rank) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("RONDO_MASTER_PORT", port.c_str(), 1);
    ::setenv("RONDO_SECRET", "of this run", 1);
    // As `rondo run` does: rank 0 inherits the bound socket.
    if (rank == 0) ::setenv("RONDO_LISTEN_FD", std::to_string(::dup(listener.get())).c_str(), 1);
    rondoComm_t world;
    ASSERT_WELL(rondoCommInitEnv(&world, nullptr));
    int value = rank + 1;
    ASSERT_WELL(rondoAllReduce(&value, &value, 1, rondoInt32, rondoSum, world, nullptr));
    EXPECT_EQ(value, 3);
    ASSERT_WELL(rondoCommDestroy(world));
  });
}

TEST(CApi, SplitsAndDestroys) {
  with_comms([](rondoComm_t comm, int rank) {
    rondoComm_t child = nullptr;
    ASSERT_WELL(rondoCommSplit(comm, rank == 1 ? RONDO_SPLIT_NOCOLOR : 4, -rank, &child, nullptr));
    EXPECT_EQ(child == nullptr, rank == 1);
    if (child == nullptr) return;
    int new_rank = -1;
    ASSERT_WELL(rondoCommUserRank(child, &new_rank));
    EXPECT_EQ(new_rank, rank == 2 ? 0 : 1);
    ASSERT_WELL(rondoBarrier(child, nullptr));
    ASSERT_WELL(rondoCommDestroy(child));
    EXPECT_EQ(rondoBarrier(child, nullptr), rondoInvalidArgument);
  });
}

TEST(CApi, AbortEndsTheCallsOfAllRanks) {
  rondoComm_t comms[2];
  ASSERT_WELL(rondoCommInitAll(comms, 2, nullptr));
  run_threads(2, [&](int rank) {
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_EQ(rondoCommAbort(comms[0]), rondoSuccess);
      return;
    }
    EXPECT_EQ(rondoBarrier(comms[1], nullptr), rondoAborted);
    rondoResult_t error = rondoSuccess;
    ASSERT_WELL(rondoCommGetAsyncError(comms[1], &error));
    EXPECT_EQ(error, rondoAborted);
    EXPECT_EQ(rondoBarrier(comms[1], nullptr), rondoAborted);
    EXPECT_EQ(rondoCommDestroy(comms[1]), rondoSuccess);
  });
}

// ---- groups ----

TEST(Groups, GatherBuffersOfDifferentCountsInOneCall) {
  with_comms([](rondoComm_t comm, int rank) {
    const std::size_t counts[] = {7, 1, 0, 5000, 3};
    std::vector<std::vector<float>> send, receive;
    for (const std::size_t count : counts) {
      send.push_back(numbers(rank, count));
      receive.emplace_back(count * size);
    }
    ASSERT_WELL(rondoGroupStart());
    for (std::size_t i = 0; i < 5; ++i)
      ASSERT_WELL(rondoAllGather(send[i].data(), receive[i].data(), counts[i], rondoFloat32, comm, nullptr));
    ASSERT_WELL(rondoGroupEnd());
    for (std::size_t i = 0; i < 5; ++i)
      for (int from = 0; from < size; ++from)
        for (std::size_t e = 0; e < counts[i]; ++e)
          ASSERT_EQ(receive[i][static_cast<std::size_t>(from) * counts[i] + e], numbers(from, counts[i])[e]);
    std::size_t room = 0;
    ASSERT_WELL(rondoLedgerJson(comm, nullptr, &room));
    std::string json(room, '\0');
    ASSERT_WELL(rondoLedgerJson(comm, json.data(), &room));
    EXPECT_NE(json.find("\"calls\": 1"), std::string::npos) << json;
  });
}

TEST(Groups, MixKindsTypesAndMessagesAndNest) {
  with_comms([](rondoComm_t comm, int rank) {
    std::vector<float> sum = numbers(rank, 100);
    std::vector<std::int32_t> top(50, rank), root(10, rank * 11);
    double in = rank, out = -1;
    ASSERT_WELL(rondoGroupStart());
    ASSERT_WELL(rondoAllReduce(sum.data(), sum.data(), sum.size(), rondoFloat32, rondoSum, comm, nullptr));
    ASSERT_WELL(rondoGroupStart());
    ASSERT_WELL(rondoAllReduce(top.data(), top.data(), top.size(), rondoInt32, rondoMax, comm, nullptr));
    ASSERT_WELL(rondoBroadcast(root.data(), root.data(), root.size(), rondoInt32, 2, comm, nullptr));
    ASSERT_WELL(rondoGroupEnd());
    EXPECT_EQ(root[0], rank * 11) << "an inner end starts nothing";
    ASSERT_WELL(rondoSend(&in, 1, rondoFloat64, (rank + 1) % size, comm, nullptr));
    ASSERT_WELL(rondoRecv(&out, 1, rondoFloat64, (rank + 2) % size, comm, nullptr));
    ASSERT_WELL(rondoBarrier(comm, nullptr));
    ASSERT_WELL(rondoGroupEnd());
    EXPECT_EQ(sum[3], 3009);
    EXPECT_EQ(top[49], 2);
    EXPECT_EQ(root[9], 22);
    EXPECT_EQ(out, (rank + 2) % size);
  });
}

TEST(Groups, SpanCommunicatorsInAnyOrder) {
  rondoComm_t a[size], b[size];
  ASSERT_WELL(rondoCommInitAll(a, size, nullptr));
  ASSERT_WELL(rondoCommInitAll(b, size, nullptr));
  run_threads(size, [&](int rank) {
    std::vector<std::int64_t> x(20'000, rank), y(20'000, rank);
    ASSERT_WELL(rondoGroupStart());
    const auto reduce = [&](rondoComm_t comm, std::vector<std::int64_t>& data) {
      ASSERT_WELL(rondoAllReduce(data.data(), data.data(), data.size(), rondoInt64, rondoSum, comm, nullptr));
    };
    if (rank == 1) reduce(b[rank], y), reduce(a[rank], x);
    if (rank != 1) reduce(a[rank], x), reduce(b[rank], y);
    ASSERT_WELL(rondoGroupEnd());
    EXPECT_EQ(x[19'999] + y[0], 6);
  });
  // One thread may also drive all ranks of a communicator, in a group.
  std::int64_t values[size] = {1, 2, 3};
  ASSERT_WELL(rondoGroupStart());
  for (int rank = 0; rank < size; ++rank)
    ASSERT_WELL(rondoAllReduce(&values[rank], &values[rank], 1, rondoInt64, rondoSum, a[rank], nullptr));
  ASSERT_WELL(rondoGroupEnd());
  for (const std::int64_t value : values) EXPECT_EQ(value, 6);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(rondoCommDestroy(a[rank]), rondoSuccess);
    EXPECT_EQ(rondoCommDestroy(b[rank]), rondoSuccess);
  }
}

TEST(Groups, EndsWithoutStartAndMembersThatFailAreErrors) {
  expect_error(rondoGroupEnd(), rondoInvalidUsage, "without its start");
  with_comms([](rondoComm_t comm, int) {
    float value = 1, other = 1;
    ASSERT_WELL(rondoGroupStart());
    expect_error(rondoAllReduce(nullptr, &other, 1, rondoFloat32, rondoSum, comm, nullptr),
                 rondoInvalidArgument, "sendbuff");
    ASSERT_WELL(rondoAllReduce(&value, &value, 1, rondoFloat32, rondoSum, comm, nullptr));
    ASSERT_WELL(rondoGroupEnd());
    EXPECT_EQ(value, 3);
  });
}

// ---- streams ----

TEST(Streams, RunTheirCallsInOrderWhileTheCallerGoesOn) {
  with_comms([](rondoComm_t comm, int rank) {
    rondoStream_t stream;
    ASSERT_WELL(rondoStreamCreate(&stream));
    std::vector<float> data(10'000, 1);
    for (int i = 0; i < 8; ++i)  // each call reads what the one before wrote
      ASSERT_WELL(
          rondoAllReduce(data.data(), data.data(), data.size(), rondoFloat32, rondoSum, comm, stream));
    ASSERT_WELL(rondoBroadcast(data.data(), data.data(), data.size(), rondoFloat32, 0, comm, stream));
    ASSERT_WELL(rondoStreamSynchronize(stream));
    EXPECT_EQ(data, std::vector<float>(10'000, 6561)) << rank;
    EXPECT_EQ(rondoStreamQuery(stream), rondoSuccess);
    ASSERT_WELL(rondoStreamDestroy(stream));
    EXPECT_EQ(rondoStreamDestroy(stream), rondoInvalidArgument);
  });
}

TEST(Streams, EndByThemselves) {
  with_comms([](rondoComm_t comm, int rank) {
    rondoStream_t stream;
    ASSERT_WELL(rondoStreamCreate(&stream));
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_WELL(rondoBarrier(comm, stream));
    if (rank == 0) {
      EXPECT_EQ(rondoStreamQuery(stream), rondoInProgress);
    }
    // Nobody waits: the progress thread does it.
    rondoResult_t result = rondoInProgress;
    for (int i = 0; i < 500 && result == rondoInProgress; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      result = rondoStreamQuery(stream);
    }
    EXPECT_EQ(result, rondoSuccess);
    ASSERT_WELL(rondoStreamDestroy(stream));
  });
}

TEST(Streams, OrderCallsOfSeveralCommunicatorsAndGroups) {
  rondoComm_t a[size], b[size];
  ASSERT_WELL(rondoCommInitAll(a, size, nullptr));
  ASSERT_WELL(rondoCommInitAll(b, size, nullptr));
  run_threads(size, [&](int rank) {
    rondoStream_t stream;
    ASSERT_WELL(rondoStreamCreate(&stream));
    std::vector<std::int32_t> data(30'000, 1), other(10, 1);
    for (int i = 0; i < 5; ++i) {
      ASSERT_WELL(
          rondoAllReduce(data.data(), data.data(), data.size(), rondoInt32, rondoSum, a[rank], stream));
      ASSERT_WELL(rondoGroupStart());
      ASSERT_WELL(
          rondoAllReduce(data.data(), data.data(), data.size(), rondoInt32, rondoSum, b[rank], stream));
      ASSERT_WELL(
          rondoAllReduce(other.data(), other.data(), other.size(), rondoInt32, rondoSum, b[rank], stream));
      ASSERT_WELL(rondoGroupEnd());
    }
    ASSERT_WELL(rondoStreamSynchronize(stream));
    EXPECT_EQ(data, std::vector<std::int32_t>(30'000, 59'049));
    EXPECT_EQ(other, std::vector<std::int32_t>(10, 243));
    ASSERT_WELL(rondoStreamDestroy(stream));
    EXPECT_EQ(rondoCommDestroy(a[rank]), rondoSuccess);
    EXPECT_EQ(rondoCommDestroy(b[rank]), rondoSuccess);
  });
}

TEST(Streams, TellTheFirstErrorOnce) {
  with_comms([](rondoComm_t comm, int rank) {
    rondoStream_t stream;
    ASSERT_WELL(rondoStreamCreate(&stream));
    std::vector<float> data(100, 1);
    ASSERT_WELL(
        rondoAllReduce(data.data(), data.data(), rank == 1 ? 99 : 100, rondoFloat32, rondoSum, comm, stream));
    ASSERT_WELL(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoSum, comm, stream));
    expect_error(rondoStreamSynchronize(stream), rondoInvalidUsage,
                 "count differs between ranks: ranks 0, 2: 100; rank 1: 99");
    EXPECT_EQ(rondoStreamSynchronize(stream), rondoSuccess);
    EXPECT_EQ(data[99], 3) << "the call after it was made";
    ASSERT_WELL(rondoStreamDestroy(stream));
  });
}

TEST(Streams, WithPendingCallsSurviveTheirCommunicator) {
  rondoComm_t comms[2];
  ASSERT_WELL(rondoCommInitAll(comms, 2, nullptr));
  rondoStream_t stream;
  ASSERT_WELL(rondoStreamCreate(&stream));
  std::vector<float> data(100, 1);
  for (int i = 0; i < 3; ++i)
    ASSERT_WELL(rondoAllReduce(data.data(), data.data(), 100, rondoFloat32, rondoSum, comms[0], stream));
  ASSERT_WELL(rondoCommDestroy(comms[0]));
  EXPECT_EQ(rondoStreamSynchronize(stream), rondoAborted);
  ASSERT_WELL(rondoStreamDestroy(stream));
  ASSERT_WELL(rondoCommDestroy(comms[1]));
}

TEST(Streams, FinalizeWaitsForTheirCalls) {
  with_comms([](rondoComm_t comm, int) {
    rondoStream_t stream;
    ASSERT_WELL(rondoStreamCreate(&stream));
    std::vector<float> data(100'000, 1);
    for (int i = 0; i < 5; ++i)
      ASSERT_WELL(
          rondoAllReduce(data.data(), data.data(), data.size(), rondoFloat32, rondoMax, comm, stream));
    ASSERT_WELL(rondoCommFinalize(comm));
    EXPECT_EQ(rondoStreamQuery(stream), rondoSuccess);
    ASSERT_WELL(rondoStreamDestroy(stream));
  });
}

// ---- the ledger ----

TEST(LedgerCalls, GiveScopesMatrixAndText) {
  with_comms([](rondoComm_t comm, int rank) {
    std::vector<float> data(300, 1), all(900);
    ASSERT_WELL(rondoLedgerScopeBegin(comm, "layer 0"));
    ASSERT_WELL(rondoAllGather(data.data(), all.data(), 300, rondoFloat32, comm, nullptr));
    ASSERT_WELL(rondoLedgerScopeEnd(comm));
    std::uint64_t matrix[size * size] = {};
    ASSERT_WELL(rondoLedgerMatrix(comm, rondoLedgerPayload, matrix));
    for (std::size_t from = 0; from < size; ++from)
      EXPECT_EQ(std::accumulate(matrix + from * size, matrix + (from + 1) * size, std::uint64_t{0}),
                2 * 1200u)
          << rank;
    expect_error(rondoLedgerScopeBegin(comm, "my (report)"), rondoInvalidArgument, "my (report)");
    // Neither the first matrix's own calls nor the scope they are made in count.
    std::uint64_t again[size * size] = {};
    ASSERT_WELL(rondoLedgerScopeBegin(comm, "elsewhere"));
    ASSERT_WELL(rondoLedgerMatrix(comm, rondoLedgerPayload, again));
    ASSERT_WELL(rondoLedgerMatrix(comm, rondoLedgerPayload, again));
    ASSERT_WELL(rondoLedgerScopeEnd(comm));
    EXPECT_TRUE(std::equal(matrix, matrix + size * size, again));
    std::size_t room = 0;
    ASSERT_WELL(rondoLedgerJson(comm, nullptr, &room));
    std::string text(room, '\0');
    std::size_t little = room - 1;
    expect_error(rondoLedgerJson(comm, text.data(), &little), rondoInvalidArgument, "expected at least");
    EXPECT_EQ(little, room);
    ASSERT_WELL(rondoLedgerJson(comm, text.data(), &room));
    EXPECT_NE(text.find("\"scope\": \"layer 0\""), std::string::npos) << text;
    ASSERT_WELL(rondoLedgerMatrix(comm, rondoLedgerPadding, matrix));
    for (const std::uint64_t bytes : matrix) EXPECT_EQ(bytes, 0u);
    expect_error(rondoLedgerMatrix(comm, static_cast<rondoLedgerClass_t>(3), matrix), rondoInvalidArgument,
                 "byte_class 3");
    ASSERT_WELL(rondoLedgerReset(comm));
    ASSERT_WELL(rondoLedgerMatrix(comm, rondoLedgerPayload, matrix));
    for (const std::uint64_t bytes : matrix) EXPECT_EQ(bytes, 0u);
  });
}

}  // namespace
}  // namespace rondo::test
