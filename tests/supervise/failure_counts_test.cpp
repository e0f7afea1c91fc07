// The failures of a run after which a node is left out, and after which the run is given up.
#include "terrace/supervise/failure_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace terrace::supervise {
namespace {

Failure at(const std::string& node, int64_t from_step, int64_t last_step, int64_t rank = -1) {
  return {.node = node, .rank = rank, .from_step = from_step, .last_step = last_step};
}

// The node to leave out after each of the failures, "" where there is none.
std::vector<std::string> left_out(const std::vector<Failure>& failures) {
  FailureCounts counts;
  std::vector<std::string> nodes;
  for (const Failure& failure : failures) {
    counts.add(failure);
    nodes.push_back(counts.node_to_leave_out());
  }
  return nodes;
}

using Nodes = std::vector<std::string>;

TEST(FailureCounts, LeaveOutANodeThatFailsTwiceInARowWithoutANewStep) {
  EXPECT_EQ(left_out({at("b", 0, 0), at("b", 0, 0)}), (Nodes{"", "b"}));
  // The second start made the steps again that the first one had made, and no more.
  EXPECT_EQ(left_out({at("b", 0, 45), at("b", 40, 45)}), (Nodes{"", "b"}));
}

TEST(FailureCounts, KeepANodeThatMakesStepsInBetweenOrFailsInTurnWithOthers) {
  EXPECT_EQ(left_out({at("b", 0, 45), at("b", 40, 46), at("b", 40, 46)}), (Nodes{"", "", "b"}));
  EXPECT_EQ(left_out({at("a", 0, 0), at("b", 0, 0), at("a", 0, 0)}), (Nodes{"", "", ""}));
  EXPECT_EQ(left_out({at("b", 0, 0), at("", 0, 0), at("b", 0, 0)}), (Nodes{"", "", ""}));
  EXPECT_EQ(left_out({at("", 0, 0), at("", 0, 0)}), (Nodes{"", ""}));
}

TEST(FailureCounts, GiveUpAfterThreeFailuresWithoutANewerStepToContinueFrom) {
  FailureCounts counts;
  for (const int64_t from_step : {0, 0, 20, 20}) {
    counts.add(at("", from_step, from_step + 5));
    EXPECT_FALSE(counts.is_to_give_up());
  }
  counts.add(at("", 20, 25));
  EXPECT_TRUE(counts.is_to_give_up());
  EXPECT_EQ(counts.without_newer(), 3);
}

TEST(FailureCounts, BeginAgainWithoutTheNodeThatIsLeftOut) {
  FailureCounts counts;
  counts.add(at("b", 0, 8));
  counts.add(at("b", 0, 8));
  counts.forgive();
  EXPECT_EQ(counts.node_to_leave_out(), "");
  counts.add(at("c", 0, 8));
  EXPECT_FALSE(counts.is_to_give_up());
  counts.add(at("c", 0, 8));
  EXPECT_EQ(counts.node_to_leave_out(), "c") << "step 8 is not new";
}

// Rank 3 dies on every node: two failures on b, and three on c.
TEST(FailureCounts, LeaveOutNoSecondNodeForTheSameRank) {
  FailureCounts counts;
  counts.add(at("b", 0, 8, 3));
  counts.add(at("b", 0, 8, 3));
  EXPECT_EQ(counts.node_to_leave_out(), "b");
  counts.forgive();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(counts.is_to_give_up());
    counts.add(at("c", 0, 8, 3));
    EXPECT_EQ(counts.node_to_leave_out(), "");
  }
  EXPECT_TRUE(counts.is_to_give_up());
}

TEST(FailureCounts, BlameTheNextNodeOnceNewStepsWereMade) {
  FailureCounts counts;
  counts.add(at("b", 0, 8, 3));
  counts.add(at("b", 0, 8, 3));
  counts.forgive();
  counts.add(at("c", 0, 50, 3));
  counts.add(at("c", 40, 50, 3));
  EXPECT_EQ(counts.node_to_leave_out(), "c");
}

}  // namespace
}  // namespace terrace::supervise
