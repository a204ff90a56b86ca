#include "models/sharding.h"

#include <gtest/gtest.h>

#include "tests/error_message.h"

namespace rondo {
namespace {

std::vector<std::size_t> row_counts(std::size_t rows, int ranks) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(shard_rows(rows, rank, ranks).size());
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(Sharding, LastRanksHoldFewerRowsOrNone) {
  EXPECT_EQ(row_counts(9, 8), (Counts{2, 2, 2, 2, 1, 0, 0, 0}));
  EXPECT_EQ(row_counts(9, 4), (Counts{3, 3, 3, 0}));
  EXPECT_EQ(row_counts(1, 4), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(row_counts(64, 4), (Counts{16, 16, 16, 16}));
  EXPECT_EQ(row_counts(0, 3), (Counts{0, 0, 0}));
}

TEST(Sharding, ShardsFollowOneAnotherAndCoverAllRows) {
  for (std::size_t rows = 0; rows <= 40; ++rows) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      std::size_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const RowRange range = shard_rows(rows, rank, ranks);
        EXPECT_EQ(range.begin, end);
        EXPECT_LE(range.size(), rows_per_rank(rows, ranks));
        end = range.end;
      }
      EXPECT_EQ(end, rows);
    }
  }
}

TEST(Sharding, OnlyDimensionZeroIsCut) {
  EXPECT_EQ(shard_shape("weight", {9, 4}, 4, 8), (Shape{1, 4}));
  EXPECT_EQ(shard_shape("weight", {9, 4}, 5, 8), (Shape{0, 4}));
  EXPECT_EQ(shard_shape("down_proj", {512, 1024}, 3, 4), (Shape{128, 1024}));
}

TEST(Sharding, WireIsPaddedToEqualShares) {
  EXPECT_EQ(padded_rows(9, 4), 12u);
  EXPECT_EQ(padded_rows(9, 8), 16u);
  EXPECT_EQ(padded_rows(8, 4), 8u);
  EXPECT_EQ(element_count(padded_shape("weight", {9, 4}, 4)), 48u);
  EXPECT_EQ(element_count(padded_shape("weight", {1, 4}, 4)), 16u);
}

TEST(Sharding, RefusesScalars) {
  EXPECT_EQ(error_message([] { shard_shape("norm.weight", {}, 0, 4); }),
            "parameter 'norm.weight' is a scalar: sharding needs a dimension 0; give it the shape [1]");
  EXPECT_THROW(padded_shape("norm.weight", {}, 4), Error);
}

TEST(Sharding, RefusesRanksThatDoNotExist) {
  EXPECT_EQ(error_message([] { shard_rows(9, 4, 4); }), "shard of rank 4: expected a rank from 0 to 3");
  EXPECT_THROW(shard_rows(9, -1, 4), Error);
  EXPECT_THROW(shard_rows(9, 0, 0), Error);
}

}  // namespace
}  // namespace rondo
