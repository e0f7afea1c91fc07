// Tests the words for one thing and for several of them.
#include "terrace/base/text/plural.h"

#include <gtest/gtest.h>

namespace terrace {
namespace {

TEST(Plural, OneThingAloneIsSingular) {
  EXPECT_EQ(counted(0, "thread"), "0 threads");
  EXPECT_EQ(counted(1, "thread"), "1 thread");
  EXPECT_EQ(counted(2, "thread"), "2 threads");
  EXPECT_EQ(counted(12345, "step"), "12,345 steps");
  EXPECT_EQ(counted(1, "micro-batch", "micro-batches"), "1 micro-batch");
  EXPECT_EQ(counted(3, "micro-batch", "micro-batches"), "3 micro-batches");
  EXPECT_EQ(plural(1, "is", "are"), "is");
  EXPECT_EQ(plural(11, "rank"), "ranks");
}

}  // namespace
}  // namespace terrace
