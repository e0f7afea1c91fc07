// Tests which trials continue, and when.
#include "terrace/search/halving.h"

#include <gtest/gtest.h>

namespace terrace::search {
namespace {

class Ladder : public testing::Test {
 protected:
  // The trial that continues and its budget; {-1, 0} if none does.
  std::pair<int64_t, int64_t> promoted() {
    const auto promotion = ladder_.promote();
    return promotion ? std::pair(promotion->trial, promotion->budget) : none_;
  }

  HalvingLadder ladder_{{.first = 1, .most = 9, .factor = 3}};
  const std::pair<int64_t, int64_t> none_ = {-1, 0};
};

TEST_F(Ladder, ContinuesTheBestThirdAndWaitsForNoOther) {
  EXPECT_EQ(promoted(), none_);
  ladder_.tell(0, 1, 5.0);
  ladder_.tell(1, 1, 7.0);
  EXPECT_EQ(promoted(), none_);
  ladder_.tell(2, 1, 6.0);
  EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(1, 3)));
  EXPECT_EQ(promoted(), none_);
  // A better one continues as soon as it is the best third itself.
  ladder_.tell(3, 1, 8.0);
  EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(3, 3)));
  ladder_.tell(4, 1, 1.0);
  ladder_.tell(5, 1, 2.0);
  EXPECT_EQ(promoted(), none_);
}

TEST_F(Ladder, PrefersTheHighestBudget) {
  for (int64_t trial = 0; trial < 9; ++trial) ladder_.tell(trial, 1, static_cast<double>(trial));
  for (const int64_t trial : {8, 7, 6}) {
    EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(trial, 3)));
  }
  for (const int64_t trial : {8, 7, 6}) ladder_.tell(trial, 3, static_cast<double>(-trial));
  for (int64_t trial = 10; trial < 16; ++trial) ladder_.tell(trial, 1, 20.0);
  EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(6, 9)));
  EXPECT_EQ(promoted().second, 3);
}

TEST_F(Ladder, CountsFailuresAndNeverContinuesThem) {
  ladder_.tell(0, 1, std::nullopt);
  ladder_.tell(1, 1, std::nullopt);
  ladder_.tell(2, 1, 1.0);
  EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(2, 3)));
  ladder_.tell(3, 1, std::nullopt);
  ladder_.tell(4, 1, std::nullopt);
  ladder_.tell(5, 1, std::nullopt);
  EXPECT_EQ(promoted(), none_);
}

TEST_F(Ladder, KnowsWhatAnEarlierSearchContinued) {
  for (int64_t trial = 0; trial < 6; ++trial) ladder_.tell(trial, 1, static_cast<double>(trial));
  ladder_.set_promoted(5, 1);
  EXPECT_EQ(promoted(), (std::pair<int64_t, int64_t>(4, 3)));
  EXPECT_EQ(promoted(), none_);
}

}  // namespace
}  // namespace terrace::search
