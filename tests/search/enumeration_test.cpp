// Searches by predictions try every point where that takes seconds, and say which way they take.
#include "terrace/search/enumeration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "terrace/search/search_report.h"
#include "terrace/search/study/study_record.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Enumeration : public testing::Test {
 protected:
  Study study(const std::string& more = "") const { return small_study(folder_, more); }
  // The study of a space with these parameters.
  Study study_of(const std::string& parameters, const std::string& more = "") const {
    return parse_study(search_table(write_small_config(folder_), more) + parameters, "space.toml");
  }

  ScratchFolder folder_;
};

// 4 x 4 x 2 points; tensor * pipeline is 8 for (1, 8), (2, 4) and (4, 2).
TEST_F(Enumeration, CountsThePointsThatHoldTheConstraints) {
  EXPECT_EQ(study().space.held_points(1000)->size(), 32u);
  const Study some = study("constraints = [\"layout.tensor * layout.pipeline == 8\"]\n");
  EXPECT_EQ(some.space.held_points(1000)->size(), 6u);
  EXPECT_EQ(some.space.held_points(6)->size(), 6u);
  EXPECT_FALSE(some.space.held_points(5));
  const std::vector<uint64_t> held = *some.space.held_points(6);
  for (const uint64_t index : held) {
    const Point point = some.space.grid_point(index);
    EXPECT_EQ(some.space.number(point, "layout.tensor") * some.space.number(point, "layout.pipeline"), 8);
  }
}

TEST_F(Enumeration, TriesAllPointsOfASmallSpaceWhateverTheSeedAndTheNumberOfTrials) {
  const Study all = study("method = \"exhaustive\"\n");
  const SearchResult every = search(all, {.folder = folder_ / "every"});
  for (const int seed : {1, 2, 3}) {
    const std::string name = fmt::format("seed_{}", seed);
    Study chosen = study(fmt::format("trials = 5\nseed = {}\n", seed));
    const SearchResult result = search(chosen, {.folder = folder_ / name});
    EXPECT_EQ(result.trials.size(), 32u);
    EXPECT_EQ(result.end, SearchEnd::points);
    EXPECT_EQ(result.best(1).front().objectives, every.best(1).front().objectives);
    EXPECT_THAT(choose_method(chosen, {.folder = folder_.path()}),
                StartsWith("all 32 points that hold the constraints are predicted, in about "));
    EXPECT_EQ(chosen.settings.method, Method::exhaustive);
    EXPECT_TRUE(chosen.settings.tries_all());
  }
}

TEST_F(Enumeration, SaysHowManyPointsFailedAndWhy) {
  Study chosen = study();
  choose_method(chosen, {.folder = folder_.path()});
  const SearchResult result = search(chosen, {.folder = folder_ / "all"});
  const std::string text = text_of(chosen, result, result.best(3));
  // Three of the 16 pairs of sizes with tensor 1, 2 or 4 have too many stages, and one pair needs more than 8 devices
  // besides; all four with tensor 3 do not divide 8.
  EXPECT_THAT(text, StartsWith(fmt::format("32 trials: {} done, {} failed ({} F_layout); all points of the space were "
                                           "evaluated\nF_layout, such as trial ",
                                           32 - result.failed(), result.failed(), result.failed())));
}

TEST_F(Enumeration, KeepsAMethodThatIsGiven) {
  for (const char* method : {"bayesian", "random", "exhaustive"}) {
    Study given = study(fmt::format("method = \"{}\"\ntrials = 5\n", method));
    EXPECT_EQ(choose_method(given, {.folder = folder_.path()}), "");
    EXPECT_EQ(search(given, {.folder = folder_ / method}).trials.size(), 5u) << method;
  }
}

TEST_F(Enumeration, SamplesWhereAllPointsTakeLongerThanTheTimeThatThereIs) {
  Study hurried = study();
  const std::string reason = choose_method(hurried, {.folder = folder_.path(), .time_limit = 1e-6});
  EXPECT_THAT(reason, StartsWith("100 points are sampled: predictions of all 32 would take about "));
  EXPECT_THAT(reason, HasSubstr("longer than half of the time limit, "));
  EXPECT_THAT(reason, HasSubstr("--method exhaustive predicts all"));
  EXPECT_EQ(hurried.settings.method, Method::bayesian);
  EXPECT_FALSE(hurried.settings.tries_all());
}

TEST_F(Enumeration, SamplesWhatCannotBeCountedOrIsToBeLearned) {
  Study learns = study("trials = 7\n");
  EXPECT_EQ(choose_method(learns, {.folder = folder_.path(), .from = folder_ / "results.csv"}),
            "7 points are sampled: --from gives results to learn from; --method exhaustive predicts all");
  Study real = study_of("[parameters.optimizer.learning_rate]\ntype = \"real\"\nrange = [1e-5, 1e-3]\n");
  EXPECT_EQ(choose_method(real, {.folder = folder_.path()}),
            "100 points are sampled: points cannot be counted, since a parameter is real or there are too many");
  Study large = study_of(
      "[parameters.train.steps]\ntype = \"integer\"\nrange = [1, 10000]\n"
      "[parameters.train.micro_batch]\ntype = \"integer\"\nrange = [1, 1000]\n");
  EXPECT_EQ(choose_method(large, {.folder = folder_.path()}),
            "100 points are sampled: the space has 10,000,000 points, more than the 1,000,000 of which it is tried how "
            "many hold the constraints; --method exhaustive predicts all");
  EXPECT_EQ(real.settings.method, Method::bayesian);
  EXPECT_EQ(large.settings.method, Method::bayesian);
}

// Workers that choose by themselves join each other, whichever way each of them takes.
TEST_F(Enumeration, WorkersAgreeOnTheMethodThatTheyChoose) {
  Study enumerates = study(), samples = study();
  choose_method(enumerates, {.folder = folder_.path()});
  choose_method(samples, {.folder = folder_.path(), .time_limit = 1e-6});
  ASSERT_NE(enumerates.settings.method, samples.settings.method);
  EXPECT_EQ(identity_of(enumerates), identity_of(samples));
  EXPECT_NE(identity_of(enumerates), identity_of(study("method = \"exhaustive\"\n")));
}

}  // namespace
}  // namespace terrace::search
