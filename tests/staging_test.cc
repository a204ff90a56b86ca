// How chunks are cut for rounds through staging areas.
#include "src/staging.h"

#include <gtest/gtest.h>

namespace rondo::test {
namespace {

TEST(Staging, RoundsOfAChunkAreFewAndAlike) {
  constexpr std::size_t line = 64;
  for (std::size_t most = line; most <= 8 * line; most += line)
    for (std::size_t bytes = 1; bytes <= 40 * line; ++bytes) {
      const auto [count, each] = Staging::equal_rounds(bytes, most);
      ASSERT_EQ(count, (bytes + most - 1) / most) << bytes << " bytes, at most " << most;
      ASSERT_LE(each, most) << bytes;
      ASSERT_EQ(each % line, 0u) << bytes;
      ASSERT_LT((count - 1) * each, bytes) << "the last round is empty";
      ASSERT_GE(count * each, bytes) << "at most " << most;
      // Nothing smaller in whole lines would do.
      ASSERT_LT(count * (each - line), bytes) << "at most " << most;
    }
}

TEST(Staging, NoBytesTakeNoRounds) { EXPECT_EQ(Staging::equal_rounds(0, 64).count, 0u); }

}  // namespace
}  // namespace rondo::test
