// Which stores a series of calls settles on.
#include "src/pace.h"

#include <gtest/gtest.h>

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

// Makes calls that take so long with each kind of stores; how many of them streamed.
int streamed_of(Pace& pace, int calls, std::chrono::nanoseconds ordinary,
                std::chrono::nanoseconds streaming) {
  int streamed = 0;
  for (int call = 0; call < calls; ++call) {
    const Stores stores = pace.next();
    streamed += stores == Stores::streaming;
    pace.took(stores, stores == Stores::streaming ? streaming : ordinary);
  }
  return streamed;
}

TEST(Pace, SettlesOnTheQuickerStoresAfterATry) {
  Pace pace;
  EXPECT_EQ(streamed_of(pace, 6, 10us, 20us), 3) << "tries both";
  EXPECT_EQ(streamed_of(pace, 500, 10us, 20us), 0);
  Pace other;
  streamed_of(other, 6, 20us, 10us);
  EXPECT_EQ(streamed_of(other, 500, 20us, 10us), 500);
}

TEST(Pace, TriesAgainWhenTheMachineHasChanged) {
  Pace pace;
  streamed_of(pace, 1024, 10us, 20us);
  streamed_of(pace, 6, 30us, 20us);
  EXPECT_EQ(streamed_of(pace, 500, 30us, 20us), 500);
}

// One slow call, such as the first, which takes its memory, does not decide.
TEST(Pace, TheBestOfAFewTriesCounts) {
  Pace pace;
  pace.took(pace.next(), 900us);
  streamed_of(pace, 5, 10us, 20us);
  EXPECT_EQ(streamed_of(pace, 500, 10us, 20us), 0);
}

}  // namespace
}  // namespace rondo::test
