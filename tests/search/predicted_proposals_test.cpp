// Proposals by predictions: the best first, corrected by what trials gave, and never what cannot run.
#include "terrace/search/proposals/predicted_proposals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace terrace::search {
namespace {

// Seconds of a step with a setting a of 0 to 9 and another, b, of 0 to 9.
double true_seconds(const Point& point) { return 1 + 0.1 * std::abs(point[0] - 7) + (point[1] > 4 ? 0.0 : 0.5); }
// Predictions do not know that b matters.
std::optional<double> predicted_seconds(const Point& point) {
  if (point[0] == 9) return std::nullopt;  // does not fit
  return 1 + 0.1 * std::abs(point[0] - 7) + 0.001 * point[1];
}

class Predicted : public testing::Test {
 protected:
  Space space_{{{.name = "a", .low = 0, .high = 9}, {.name = "b", .low = 0, .high = 9}}, {}, {}, {}};
  std::vector<PredictedPoint> points_ = predict_points(space_, 1, predicted_seconds, nullptr).points;
};

TEST_F(Predicted, LeavesOutPointsThatCannotRun) {
  EXPECT_EQ(points_.size(), 90);
  for (const PredictedPoint& one : points_) EXPECT_NE(one.point[0], 9);
}

TEST_F(Predicted, ProposesTheBestPredictionFirstAndEachPointOnce) {
  PredictedProposals proposals(space_, points_, true);
  EXPECT_EQ(proposals.ask(), (Point{7, 0}));
  EXPECT_EQ(proposals.ask(), (Point{7, 1}));
  std::set<Point> seen = {{7, 0}, {7, 1}};
  while (const std::optional<Point> point = proposals.ask()) EXPECT_TRUE(seen.insert(*point).second);
  EXPECT_EQ(seen.size(), 90);
}

TEST_F(Predicted, LeavesPointsToOthersThatTryThem) {
  PredictedProposals proposals(space_, points_, true);
  proposals.expect({7, 0});
  proposals.expect({9, 0});  // which is not predicted to run
  EXPECT_EQ(proposals.ask(), (Point{7, 1}));
}

TEST_F(Predicted, LearnsTheErrorsOfPredictions) {
  PredictedProposals proposals(space_, points_, true);
  int trials = 0;
  for (double best = 10; best > 1; ++trials) {
    ASSERT_LT(trials, 12);
    const Point point = *proposals.ask();
    best = std::min(best, true_seconds(point));
    proposals.tell(point, true_seconds(point));
  }
}

TEST_F(Predicted, AvoidsWhatFailed) {
  PredictedProposals proposals(space_, points_, true);
  for (int i = 0; i < 5; ++i) proposals.tell({7, static_cast<double>(i)}, std::nullopt);
  for (int i = 0; i < 5; ++i) proposals.tell({3, static_cast<double>(i)}, 1.4 + 0.001 * i);
  EXPECT_NE((*proposals.ask())[0], 7);
}

TEST_F(Predicted, LooksForLargeFiguresToo) {
  PredictedProposals proposals(space_, points_, false);
  EXPECT_EQ(proposals.ask(), (Point{0, 9}));
}

}  // namespace
}  // namespace terrace::search
