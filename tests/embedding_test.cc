#include "kernels/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/error.h"

namespace rondo {
namespace {

using Ids = std::vector<std::int64_t>;
using Floats = std::vector<float>;

const Floats table = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};  // [4, 3]

TEST(Embedding, GathersRows) {
  Floats out(9);
  gather_rows(Ids{3, 0, 3}, table, 3, out);
  EXPECT_EQ(out, (Floats{30, 31, 32, 0, 1, 2, 30, 31, 32}));
}

TEST(Embedding, AddsRowsBack) {
  Floats dtable(12, 0.5f);
  scatter_add_rows(Ids{3, 0, 3}, Floats{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, dtable);
  EXPECT_EQ(dtable, (Floats{4.5f, 5.5f, 6.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 8.5f, 10.5f, 12.5f}));
}

TEST(Embedding, RefusesIdsOutsideTheVocabularyAndWritesNothing) {
  for (const std::int64_t id : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Floats out(6, 7.0f);
    Floats dtable(12, 7.0f);
    try {
      gather_rows(Ids{1, id}, table, 3, out);
      FAIL() << "id " << id << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("id " + std::to_string(id) + " at position 1"));
      EXPECT_THAT(error.what(), testing::HasSubstr("vocabulary of 4"));
    }
    EXPECT_THROW(scatter_add_rows(Ids{1, id}, Floats(6, 1.0f), 3, dtable), Error);
    EXPECT_EQ(out, Floats(6, 7.0f));
    EXPECT_EQ(dtable, Floats(12, 7.0f));
  }
}

TEST(Embedding, RefusesSizesThatDoNotFit) {
  Floats out(6);
  EXPECT_THROW(gather_rows(Ids{1}, table, 3, out), Error);
  EXPECT_THROW(gather_rows(Ids{1}, table, 5, out), Error);
  EXPECT_THROW(gather_rows(Ids{1}, table, 0, out), Error);
}

}  // namespace
}  // namespace rondo
