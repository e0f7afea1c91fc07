// The steps of an all-gather by doubling bring every block to every member, in as few steps as possible.
#include "terrace/comm/doubling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

namespace terrace::comm {
namespace {

std::set<int64_t> blocks_of(const std::vector<BlockRun>& runs) {
  std::set<int64_t> blocks;
  for (const BlockRun& run : runs) {
    for (int64_t block = run.begin; block < run.begin + run.count; ++block) blocks.insert(block);
  }
  return blocks;
}

TEST(Doubling, BringsEveryBlockToEveryMemberOnce) {
  for (int64_t members = 1; members <= 20; ++members) {
    SCOPED_TRACE(members);
    std::vector<std::vector<DoublingStep>> steps;
    std::vector<std::set<int64_t>> held;
    for (int64_t member = 0; member < members; ++member) {
      steps.push_back(doubling_steps(members, member));
      held.push_back({member});
    }
    const auto logarithm = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(members) - 1));
    for (size_t number = 0; number < logarithm; ++number) {
      const std::vector<std::set<int64_t>> before = held;
      for (size_t member = 0; member < held.size(); ++member) {
        ASSERT_EQ(steps[member].size(), logarithm);
        const DoublingStep& step = steps[member][number];
        const auto from = static_cast<size_t>(step.from);
        EXPECT_EQ(steps[from][number].to, static_cast<int64_t>(member));
        EXPECT_EQ(steps[from][number].sent, step.received);
        const std::set<int64_t> arriving = blocks_of(step.received);
        EXPECT_TRUE(std::ranges::includes(before[from], arriving));
        for (const int64_t block : arriving) EXPECT_TRUE(held[member].insert(block).second) << block;
      }
    }
    for (const std::set<int64_t>& all : held) EXPECT_EQ(std::ssize(all), members);
  }
}

// Messages of one call have one tag.
TEST(Doubling, SendsToEachMemberInOneStepOnly) {
  for (int64_t members = 2; members <= 20; ++members) {
    std::set<int64_t> to;
    const std::vector<DoublingStep> steps = doubling_steps(members, 1);
    for (const DoublingStep& step : steps) to.insert(step.to);
    EXPECT_EQ(to.size(), steps.size());
    EXPECT_FALSE(to.contains(1));
  }
}

}  // namespace
}  // namespace terrace::comm
