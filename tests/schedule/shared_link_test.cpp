// Compares the ends of calls on a shared link with ends worked out by hand.
#include "terrace/schedule/step/shared_link.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace terrace::schedule {
namespace {

using Intervals = std::map<size_t, TimeInterval>;

constexpr size_t sends = 1, reductions = 2, gathers = 3;  // communicators
constexpr double never = std::numeric_limits<double>::infinity();

// Takes the calls that end by then off the link.
void end_until(SharedLink& link, double time, Intervals& ended) {
  while (link.next_end() <= time && link.next_end() < never) {
    const auto [call, interval] = link.end_next();
    ended[call] = interval;
  }
}

struct Added {
  size_t call, communicator;
  double time, seconds;
};

Intervals intervals_of(const std::vector<Added>& calls) {
  SharedLink link;
  Intervals ended;
  for (const auto& [call, communicator, time, seconds] : calls) {
    end_until(link, time, ended);
    link.add(call, communicator, time, seconds);
  }
  end_until(link, never, ended);
  return ended;
}

TEST(SharedLink, OneCallTakesItsTime) { EXPECT_EQ(intervals_of({{0, sends, 2, 3}}), (Intervals{{0, {2, 5}}})); }

// The reduction alone 0-4, then both until the send ends, then the last 5 of the reduction's 10.
TEST(SharedLink, ASendAndAReductionUnderWayShareIt) {
  EXPECT_EQ(intervals_of({{0, reductions, 0, 10}, {1, sends, 4, 1}}), (Intervals{{0, {0, 11}}, {1, {4, 6}}}));
}

// Both until 8, then the last 2 of the longer one.
TEST(SharedLink, CallsOfTwoGroupsShareIt) {
  EXPECT_EQ(intervals_of({{0, reductions, 0, 4}, {1, gathers, 0, 6}}), (Intervals{{0, {0, 8}}, {1, {0, 10}}}));
}

TEST(SharedLink, CallsOfOneGroupFollowEachOther) {
  EXPECT_EQ(intervals_of({{0, reductions, 0, 4}, {1, reductions, 0, 6}, {2, reductions, 12, 1}}),
            (Intervals{{0, {0, 4}}, {1, {4, 10}}, {2, {12, 13}}}));
}

// At 1 the first reduction has 3 left, so it ends at 7, when the gather has 1 left and ends at 9, when the second
// reduction has 1 left.
TEST(SharedLink, ACallThatFollowsBeginsWithAShare) {
  EXPECT_EQ(intervals_of({{0, reductions, 0, 4}, {1, reductions, 0, 2}, {2, gathers, 1, 4}}),
            (Intervals{{0, {0, 7}}, {1, {7, 10}}, {2, {1, 9}}}));
}

// A third each until 3, a half each until 7, then the last 4 alone.
TEST(SharedLink, ThreeCallsGetAThirdEach) {
  EXPECT_EQ(intervals_of({{0, sends, 0, 1}, {1, gathers, 0, 3}, {2, reductions, 0, 7}}),
            (Intervals{{0, {0, 3}}, {1, {0, 7}}, {2, {0, 11}}}));
}

TEST(SharedLink, CallsWithoutATimeEndAtOnce) {
  EXPECT_EQ(intervals_of({{0, reductions, 0, 4}, {1, sends, 1, 0}}), (Intervals{{0, {0, 4}}, {1, {1, 1}}}));
}

}  // namespace
}  // namespace terrace::schedule
