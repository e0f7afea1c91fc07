// Tests for which runs the mean of the copies is advised in place of outer momentum.
#include "terrace/config/outer_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

using ::testing::HasSubstr;

Config with(const std::string& steps, const std::string& every, const std::vector<std::string>& more = {}) {
  std::vector<std::string> keys = {"train.steps=" + steps, "layout.outer_every=" + every};
  keys.insert(keys.end(), more.begin(), more.end());
  return valid(keys);
}

TEST(FewOuterUpdates, AreFewerThanTenTimesThoseThatTheMomentumRemembers) {
  EXPECT_EQ(few_outer_updates(with("128", "32")),
            "layout.outer_every = 32 makes 4 outer updates in train.steps = 128: from random weights and with fewer "
            "than 100 of them, optimizer.outer_momentum = 0.9 ends at a higher loss than the mean of the copies; use "
            "outer_learning_rate = 1.0 and outer_momentum = 0.0");
  EXPECT_THAT(few_outer_updates(with("32", "32")), HasSubstr("makes 1 outer update in"));
  EXPECT_NE(few_outer_updates(with("3168", "32")), "");
  EXPECT_EQ(few_outer_updates(with("3200", "32")), "");
  EXPECT_EQ(few_outer_updates(with("128", "1")), "");
  // A momentum of 0.5 remembers two updates.
  EXPECT_NE(few_outer_updates(with("608", "32", {"optimizer.outer_momentum=0.5"})), "");
  EXPECT_EQ(few_outer_updates(with("640", "32", {"optimizer.outer_momentum=0.5"})), "");
}

TEST(FewOuterUpdates, AreOfNoConcernWithoutMomentumOrFromTrainedWeights) {
  EXPECT_EQ(few_outer_updates(with("128", "32", {"optimizer.outer_momentum=0.0"})), "");
  EXPECT_EQ(few_outer_updates(with("128", "32", {"train.initial_weights=runs/trained"})), "");
  EXPECT_EQ(few_outer_updates(valid()), "");
}

}  // namespace
}  // namespace terrace::config
