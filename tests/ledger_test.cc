// The ledger: formulas against figures worked out by hand, one byte too many or too few, scopes, and the text
// that others read.
#include "src/ledger.h"

#include <nlohmann/json.hpp>

#include "src/calls.h"
#include "src/gather_bytes.h"
#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

// A call of `kind` with chunks of these bytes. Broadcast and reduce have one.
Call call_of(CallKind kind, std::vector<std::size_t> chunk_bytes, int root = 0) {
  Call call;
  call.kind = kind;
  call.root = root;
  call.chunk_bytes = std::move(chunk_bytes);
  return call;
}

// What each rank sends to each rank, row after row.
std::vector<ByteCounts> matrix(const Call& call, Algorithm algorithm, int size) {
  std::vector<ByteCounts> rows;
  for (int rank = 0; rank < size; ++rank) rows.push_back(expected_payload(call, algorithm, rank, size));
  return rows;
}

using Rows = std::vector<ByteCounts>;

TEST(ExpectedPayload, OfOneRankIsNothing) {
  for (const CallKind kind : {CallKind::all_reduce, CallKind::all_gather, CallKind::reduce_scatter,
                              CallKind::broadcast, CallKind::reduce})
    for (const Algorithm algorithm : forcible)
      EXPECT_EQ(matrix(call_of(kind, {40}), algorithm, 1), (Rows{{0}}));
}

TEST(ExpectedPayload, OfTwoRanks) {
  const std::vector<std::size_t> chunks{8, 4};
  EXPECT_EQ(matrix(call_of(CallKind::all_gather, chunks), Algorithm::ring, 2), (Rows{{0, 8}, {4, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce_scatter, chunks), Algorithm::ring, 2), (Rows{{0, 4}, {8, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::ring, 2), (Rows{{0, 12}, {12, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::direct, 2), (Rows{{0, 12}, {12, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::broadcast, {8}, 1), Algorithm::ring, 2), (Rows{{0, 0}, {8, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce, {8}, 1), Algorithm::ring, 2), (Rows{{0, 8}, {0, 0}}));
}

TEST(ExpectedPayload, OfThreeRanksWithUnevenChunks) {
  const std::vector<std::size_t> chunks{10, 20, 40};
  // All-gather: rank r passes on every chunk but its right neighbour's. Reduce-scatter: every chunk but its
  // own.
  EXPECT_EQ(matrix(call_of(CallKind::all_gather, chunks), Algorithm::ring, 3),
            (Rows{{0, 50, 0}, {0, 0, 30}, {60, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce_scatter, chunks), Algorithm::ring, 3),
            (Rows{{0, 60, 0}, {0, 0, 50}, {30, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::ring, 3),
            (Rows{{0, 110, 0}, {0, 0, 80}, {90, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_gather, chunks), Algorithm::direct, 3),
            (Rows{{0, 10, 10}, {20, 0, 20}, {40, 40, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce_scatter, chunks), Algorithm::direct, 3),
            (Rows{{0, 20, 40}, {10, 0, 40}, {10, 20, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::direct, 3),
            (Rows{{0, 30, 50}, {30, 0, 60}, {50, 60, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::one_shot, 3),
            (Rows{{0, 70, 70}, {70, 0, 70}, {70, 70, 0}}));
}

TEST(ExpectedPayload, OfFourRanksWithARoot) {
  EXPECT_EQ(matrix(call_of(CallKind::broadcast, {7}, 2), Algorithm::ring, 4),
            (Rows{{0, 7, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 7}, {7, 0, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::broadcast, {7}, 2), Algorithm::direct, 4),
            (Rows{{0, 0, 0, 0}, {0, 0, 0, 0}, {7, 7, 0, 7}, {0, 0, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce, {7}, 2), Algorithm::ring, 4),
            (Rows{{0, 7, 0, 0}, {0, 0, 7, 0}, {0, 0, 0, 0}, {7, 0, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce, {7}, 2), Algorithm::direct, 4),
            (Rows{{0, 0, 7, 0}, {0, 0, 7, 0}, {0, 0, 0, 0}, {0, 0, 7, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::gather, {7, 7, 7, 7}, 1), Algorithm::direct, 4),
            (Rows{{0, 7, 0, 0}, {0, 0, 0, 0}, {0, 7, 0, 0}, {0, 7, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::scatter, {7, 7, 7, 7}, 1), Algorithm::direct, 4),
            (Rows{{0, 0, 0, 0}, {7, 0, 7, 7}, {0, 0, 0, 0}, {0, 0, 0, 0}}));
}

TEST(ExpectedPayload, OfDoublingOnFourRanks) {
  const std::vector<std::size_t> chunks{1, 2, 4, 8};
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::doubling, 4),
            (Rows{{0, 15, 30, 0}, {15, 0, 0, 30}, {30, 0, 0, 15}, {0, 30, 15, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_gather, chunks), Algorithm::doubling, 4),
            (Rows{{0, 1, 3, 0}, {2, 0, 0, 3}, {12, 0, 0, 4}, {0, 12, 8, 0}}));
  // First what is for the other and for the one that it will exchange with, then two inputs' worth for it.
  EXPECT_EQ(matrix(call_of(CallKind::reduce_scatter, chunks), Algorithm::doubling, 4),
            (Rows{{0, 10, 8, 0}, {5, 0, 0, 16}, {2, 0, 0, 10}, {0, 4, 5, 0}}));
}

// Rank 0 speaks for rank 1.
TEST(ExpectedPayload, OfDoublingOnThreeRanks) {
  const std::vector<std::size_t> chunks{1, 2, 4};
  EXPECT_EQ(matrix(call_of(CallKind::all_reduce, chunks), Algorithm::doubling, 3),
            (Rows{{0, 7, 14}, {7, 0, 0}, {7, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::all_gather, chunks), Algorithm::doubling, 3),
            (Rows{{0, 5, 3}, {2, 0, 0}, {4, 0, 0}}));
  EXPECT_EQ(matrix(call_of(CallKind::reduce_scatter, chunks), Algorithm::doubling, 3),
            (Rows{{0, 2, 8}, {7, 0, 0}, {3, 0, 0}}));
}

// By distance from the root: 0 serves 4, 2 and 1; 2 serves 3, and 4 serves 5.
TEST(ExpectedPayload, OfATreeOfSixRanks) {
  EXPECT_EQ(matrix(call_of(CallKind::broadcast, {7}, 2), Algorithm::tree, 6), (Rows{{0, 7, 0, 0, 0, 0},
                                                                                    {0, 0, 0, 0, 0, 0},
                                                                                    {7, 0, 0, 7, 7, 0},
                                                                                    {0, 0, 0, 0, 0, 0},
                                                                                    {0, 0, 0, 0, 0, 7},
                                                                                    {0, 0, 0, 0, 0, 0}}));
}

TEST(ExpectedPayload, OfFiveRanks) {
  const std::vector<std::size_t> chunks{1, 2, 3, 4, 5};
  // 15 in all; rank 4's right neighbour is rank 0.
  const Rows ring = matrix(call_of(CallKind::all_reduce, chunks), Algorithm::ring, 5);
  EXPECT_EQ(ring,
            (Rows{{0, 27, 0, 0, 0}, {0, 0, 25, 0, 0}, {0, 0, 0, 23, 0}, {0, 0, 0, 0, 21}, {24, 0, 0, 0, 0}}));
  const Rows exchange = matrix(call_of(CallKind::all_to_all, {6, 6, 6, 6, 6}), Algorithm::direct, 5);
  for (std::size_t from = 0; from < 5; ++from)
    for (std::size_t to = 0; to < 5; ++to) EXPECT_EQ(exchange[from][to], from == to ? 0u : 6u);
}

TEST(ExpectedPayload, OfMessagesIsWhatIsSentToOthers) {
  int buffer[4] = {};
  Call call = send_call({0, 3}, buffer, 3, DataType::i32, 2);
  join(call, send_call({0, 3}, buffer, 1, DataType::i32, 0));
  join(call, receive_call({0, 3}, buffer, 1, DataType::i32, 0));
  join(call, receive_call({0, 3}, buffer, 4, DataType::i32, 1));
  EXPECT_EQ(expected_payload(call, Algorithm::direct, 0, 3), (ByteCounts{0, 0, 12}));
}

TEST(ExpectedPayload, OfGatherHasNoRing) {
  EXPECT_THROW(expected_payload(call_of(CallKind::gather, {1, 1}), Algorithm::ring, 0, 2), Error);
}

// ---- booking ----

// Rank 0 of 3 in an all-gather of 10, 20 and 40 bytes by ring: 50 bytes to rank 1.
Traffic exact_traffic() {
  Traffic moved(3);
  moved.count(ByteClass::payload, 1, 50);
  return moved;
}

void book(Ledger& ledger, const Traffic& moved) {
  ledger.book(ledger.scope(), call_of(CallKind::all_gather, {10, 20, 40}).sizes(), Algorithm::ring, moved);
}

TEST(Ledger, StrictModeAcceptsTheExactBytesAndAnyProtocol) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  Traffic moved = exact_traffic();
  moved.count(ByteClass::protocol, 2, 64);
  EXPECT_NO_THROW(book(ledger, moved));
}

TEST(Ledger, StrictModeFindsAByteTooManyAndAByteTooFew) {
  for (const std::uint64_t bytes : {49u, 51u}) {
    std::mutex mutex;
    Ledger ledger(0, 3, true, mutex);
    Traffic moved(3);
    moved.count(ByteClass::payload, 1, bytes);
    const std::string message = error_message([&] { book(ledger, moved); });
    EXPECT_NE(message.find(fmt::format("rank 0 sent {} payload bytes to rank 1, the formula says 50", bytes)),
              std::string::npos)
        << message;
  }
}

TEST(Ledger, StrictModeFindsAByteToTheWrongRank) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  Traffic moved(3);
  moved.count(ByteClass::payload, 1, 49);
  moved.count(ByteClass::payload, 2, 1);
  EXPECT_THROW(book(ledger, moved), Error);
}

TEST(Ledger, StrictModeFindsAByteOfPadding) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  Traffic moved = exact_traffic();
  moved.count(ByteClass::padding, 1, 1);
  const std::string message = error_message([&] { book(ledger, moved); });
  EXPECT_NE(message.find("1 padding bytes"), std::string::npos) << message;
}

TEST(Ledger, OtherwiseTheDifferenceStandsInTheRow) {
  std::mutex mutex;
  Ledger ledger(0, 3, false, mutex);
  Traffic moved(3);
  moved.count(ByteClass::payload, 1, 51);
  book(ledger, moved);
  const auto rows = ledger.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(sum_of(rows.begin()->second.expected), 50u);
  EXPECT_EQ(sum_of(rows.begin()->second.measured.of(ByteClass::payload)), 51u);
}

TEST(Ledger, ScopesNestAndEndInOrder) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  EXPECT_EQ(ledger.scope(), "");
  ledger.begin_scope("model");
  {
    const LedgerScope layer(ledger, "layer 0");
    EXPECT_EQ(ledger.scope(), "model/layer 0");
    book(ledger, exact_traffic());
  }
  EXPECT_EQ(ledger.scope(), "model");
  book(ledger, exact_traffic());
  book(ledger, exact_traffic());
  ledger.end_scope();
  EXPECT_THROW(ledger.end_scope(), Error);
  const auto rows = ledger.rows();
  EXPECT_EQ(rows.at({"model/layer 0", CallKind::all_gather, Algorithm::ring}).calls, 1u);
  EXPECT_EQ(rows.at({"model", CallKind::all_gather, Algorithm::ring}).calls, 2u);
}

TEST(Ledger, ResetForgetsBytesAndKeepsTheScope) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  ledger.begin_scope("step");
  book(ledger, exact_traffic());
  ledger.reset();
  EXPECT_TRUE(ledger.rows().empty());
  EXPECT_EQ(sum_of(ledger.total().of(ByteClass::payload)), 0u);
  EXPECT_EQ(ledger.scope(), "step");
}

TEST(Ledger, RefusedCallsStandInTheTotalOnly) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  Traffic moved(3);
  moved.count(ByteClass::protocol, 1, 64);
  moved.count(ByteClass::payload, 1, 8);
  ledger.book_refused(moved);
  EXPECT_TRUE(ledger.rows().empty());
  EXPECT_EQ(sum_of(ledger.total().of(ByteClass::protocol)), 64u);
  EXPECT_EQ(sum_of(ledger.total().of(ByteClass::payload)), 0u) << "nobody took it";
}

TEST(Ledger, JsonParsesAndHoldsTheRows) {
  std::mutex mutex;
  Ledger ledger(0, 3, true, mutex);
  const LedgerScope scope(ledger, "a \"quoted\" name, and \xff, which is no UTF-8");
  book(ledger, exact_traffic());
  const auto json = nlohmann::json::parse(ledger.json());
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["size"], 3);
  ASSERT_EQ(json["rows"].size(), 1u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["collective"], "all-gather");
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_EQ(row["calls"], 1);
  EXPECT_EQ(row["expected"], 50);
  EXPECT_EQ(row["measured"], 50);
  EXPECT_EQ(row["padding"], 0);
  EXPECT_EQ(row["sent_to"], (std::vector<int>{0, 50, 0}));
}

// ---- over a communicator ----

class LedgerOfRanks : public ::testing::TestWithParam<Algorithm> {};

TEST_P(LedgerOfRanks, MergedMatrixHasTheRowsOfTheAlgorithm) {
  const Algorithm algorithm = GetParam();
  run_ranks(
      4,
      [&](Communicator& comm) {
        const Seat seat{comm.rank(), comm.size()};
        std::vector<float> send(4000, 1), receive(4000);
        comm.run(all_reduce_call(seat, send.data(), receive.data(), 4000, DataType::f32, {}));
        const auto matrix = ledger_matrix(comm, ByteClass::payload);
        // 2 (N - 1) / N of 16,000 bytes from each rank: to the right, or a third to each other rank; in one
        // shot all of it to each; by doubling one input's worth to one rank, two to another.
        for (std::size_t from = 0; from < 4; ++from)
          for (std::size_t to = 0; to < 4; ++to) {
            const std::uint64_t ring = to == (from + 1) % 4 ? 24'000 : 0, direct = from == to ? 0 : 8'000,
                                one_shot = 2 * direct, doubling = (from ^ to) == 3 ? 0 : (from ^ to) * 16'000;
            EXPECT_EQ(matrix[from * 4 + to], algorithm == Algorithm::ring       ? ring
                                             : algorithm == Algorithm::one_shot ? one_shot
                                             : algorithm == Algorithm::doubling ? doubling
                                                                                : direct)
                << from << "->" << to;
          }
        const auto protocol = ledger_matrix(comm, ByteClass::protocol);
        for (std::size_t from = 0; from < 4; ++from)
          for (std::size_t to = 0; to < 4; ++to)
            EXPECT_EQ(protocol[from * 4 + to] > 0, from != to) << "every call has control lines";
        comm.ledger().reset();
        comm.run(barrier_call());
        for (const std::uint64_t bytes : ledger_matrix(comm, ByteClass::payload)) EXPECT_EQ(bytes, 0u);
      },
      test_options(algorithm));
}

TEST_P(LedgerOfRanks, EveryRowOfEveryCallIsExact) {
  run_ranks(
      3,
      [](Communicator& comm) {
        const Seat seat{comm.rank(), comm.size()};
        std::vector<double> send(3000, 1), receive(3000);
        comm.run(all_reduce_call(seat, send.data(), receive.data(), 1000, DataType::f64, {}));
        comm.run(all_gather_call(seat, send.data(), receive.data(), 1000, DataType::f64));
        comm.run(reduce_scatter_call(seat, send.data(), receive.data(), 1000, DataType::f64, {}));
        comm.run(broadcast_call(seat, send.data(), receive.data(), 1000, DataType::f64, 1));
        comm.run(reduce_call(seat, send.data(), receive.data(), 1000, DataType::f64, {}, 2));
        comm.run(gather_call(seat, send.data(), receive.data(), 1000, DataType::f64, 0));
        comm.run(scatter_call(seat, send.data(), receive.data(), 1000, DataType::f64, 1));
        comm.run(all_to_all_call(seat, send.data(), receive.data(), 1000, DataType::f64));
        comm.split(0, 0, test_options());
        std::uint64_t in_rows = 0;
        const auto rows = comm.ledger().rows();
        for (const auto& [key, row] : rows) {
          EXPECT_EQ(row.measured.of(ByteClass::payload), row.expected)
              << key.scope << " " << name_of(key.kind);
          in_rows += sum_of(row.measured.of(ByteClass::payload));
        }
        EXPECT_EQ(rows.size(), 9u);
        EXPECT_EQ(sum_of(comm.ledger().total().of(ByteClass::payload)), in_rows);
      },
      test_options(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, LedgerOfRanks,
                         ::testing::Values(Algorithm::ring, Algorithm::direct, Algorithm::one_shot,
                                           Algorithm::doubling),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace rondo::test
