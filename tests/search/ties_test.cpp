// Trials that are tied with the best one, and the intervals of their goals, worked out by hand.
#include "terrace/search/ties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/search/search_report.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

using testing::HasSubstr;
using testing::Not;

class Ties : public testing::Test {
 protected:
  // Places of figures: step_seconds 0, tokens_per_second 1, memory_bytes 5, shortest_seconds 6, longest_seconds 7,
  // median_difference 8.
  Trial trial(int64_t id, double seconds, double difference) const {
    Trial one{.job_id = id, .point = study_.space.grid_point(static_cast<uint64_t>(id)), .trial = id};
    one.outcome.figures = {seconds, 100 / seconds, 3, 0.4, 0.5, 6, seconds / 1.25, seconds / 0.8, difference};
    one.objectives = study_.goal_values(one.outcome.figures);
    return one;
  }
  std::vector<int64_t> ties(const SearchResult& result) const {
    std::vector<int64_t> ids;
    for (const Trial& one : tied_with_best(study_, result)) ids.push_back(one.job_id);
    return ids;
  }
  void take_goal(const std::string& figure, bool minimizes) { study_.settings.goals = {{figure, minimizes}}; }

  ScratchFolder folder_;
  Study study_ = small_study(folder_);
};

// Errors of the best trial's kind differ by 10%: 11 s is a tie with 10 s, 11.01 s is none.
TEST_F(Ties, AreWithinTheErrorsOfTheBestOnesKind) {
  for (const auto& [figure, minimizes] : {std::pair("step_seconds", true), std::pair("tokens_per_second", false)}) {
    take_goal(figure, minimizes);
    const SearchResult result{
        .trials = {trial(0, 11.01, 0.5), trial(1, 11 - 1e-9, 0), trial(2, 10, 0.1), trial(3, 10.5, 0.1)}};
    EXPECT_EQ(ties(result), (std::vector<int64_t>{2, 3, 1})) << figure;
  }
}

TEST_F(Ties, AreOfPredictedTimesOnly) {
  SearchResult result{.trials = {trial(0, 10, 0.1), trial(1, 10.5, 0.1)}};
  take_goal("memory_bytes", true);
  result.trials[1].outcome.figures[5] = 5;
  result.trials[1].objectives = {-5};
  EXPECT_EQ(ties(result), std::vector<int64_t>{1});
  take_goal("step_seconds", true);
  study_.settings.evaluator = Evaluator::train;
  result.trials[1].objectives = {-10.5};
  result.trials[0].objectives = {-10};
  EXPECT_EQ(ties(result), std::vector<int64_t>{0});
  EXPECT_TRUE(ties({}).empty());
}

// A step of 10 s was measured with 8 to 12.5 s, so a rate of 10 with 8 to 12.5 too.
TEST_F(Ties, IntervalsOfGoals) {
  for (const auto& [figure, minimizes] : {std::pair("step_seconds", true), std::pair("tokens_per_second", false)}) {
    take_goal(figure, minimizes);
    const auto interval = goal_interval(study_, trial(0, 10, 0.1));
    ASSERT_TRUE(interval);
    EXPECT_DOUBLE_EQ(interval->first, 8);
    EXPECT_DOUBLE_EQ(interval->second, 12.5);
  }
  Trial outside = trial(0, 10, 0.1);
  outside.outcome.figures[6] = outside.outcome.figures[7] = std::nan("");
  EXPECT_FALSE(goal_interval(study_, outside));
  take_goal("memory_bytes", true);
  EXPECT_FALSE(goal_interval(study_, trial(0, 10, 0.1)));
}

TEST_F(Ties, InTextJsonAndAFile) {
  SearchResult result{.trials = {trial(0, 20, 0.1), trial(1, 10, 0.1), trial(2, 10.5, 0.1)}};
  const std::string text = text_of(study_, result, result.best(1));
  EXPECT_THAT(text, HasSubstr("as measured"));
  EXPECT_THAT(text, HasSubstr("10.0 s        8.00 s to 12.5 s"));
  EXPECT_THAT(text, HasSubstr("10.5 s        8.40 s to 13.1 s"));
  EXPECT_THAT(text, Not(HasSubstr("20.0 s")));
  EXPECT_THAT(text, HasSubstr("the first 2 are a tie: their steps differ by less than the errors of published layouts "
                              "of one model\n"));
  const Json json = json_of(study_, result, result.best(1), {});
  EXPECT_EQ(json["best"].size(), 1u);
  ASSERT_EQ(json["tied"].size(), 2u);
  EXPECT_EQ(json["tied"][1]["job_id"], 2);
  EXPECT_EQ(json["tied"][0]["interval"], (Json{8.0, 12.5}));
  EXPECT_EQ(json["tied"][1]["figures"]["median_difference"], 0.1);
  write_ties(study_, result, folder_.path());
  const std::string rows = results_row(study_, result.trials[1]) + results_row(study_, result.trials[2]);
  EXPECT_EQ(read_text(folder_ / "tied.csv"), results_header(study_) + rows);
  result.trials.pop_back();
  EXPECT_THAT(text_of(study_, result, result.best(1)), Not(HasSubstr("tie")));
  write_ties(study_, result, folder_.path());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tied.csv"));
}

TEST_F(Ties, AtMostTenHaveALine) {
  SearchResult result;
  for (int id = 0; id < 12; ++id) result.trials.push_back(trial(id, 10, 0.1));
  const std::string text = text_of(study_, result, result.best(3));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 1 + 10 + 1);
  EXPECT_THAT(text, HasSubstr("the first 12 are a tie"));
  EXPECT_THAT(text, HasSubstr("; 10 of them are shown, and tied.csv has all\n"));
}

TEST_F(Ties, PredictionsHaveTheFiguresOfPublishedErrors) {
  const SearchResult result = search(small_study(folder_, "method = \"exhaustive\"\n"), {.folder = folder_ / "all"});
  for (const Trial& one : result.trials) {
    if (one.failed()) continue;
    ASSERT_EQ(one.outcome.figures.size(), 9u);
    EXPECT_TRUE(std::isnan(one.outcome.figures[6])) << "no published run had a model as small";
    EXPECT_GT(one.outcome.figures[8], 0);
  }
}

TEST_F(Ties, AnObjectiveWithoutAnIntervalFails) {
  const Study study = parse_study(
      "[search]\nevaluator = \"simulate\"\nobjective = \"longest_seconds\"\nconfig = \"" + write_small_config(folder_) +
          "\"\nmachine = \"frontier\"\ndevices = 8\nmethod = \"exhaustive\"\ntrials = 2\n" + small_parameters,
      "space.toml");
  const SearchResult result = search(study, {.folder = folder_ / "unknown"});
  ASSERT_EQ(result.trials.size(), 2u);
  EXPECT_EQ(result.trials[0].outcome.failure, "objective");
  EXPECT_THAT(result.trials[0].outcome.reason,
              HasSubstr("no interval of the step is known: outside what was compared"));
}

}  // namespace
}  // namespace terrace::search
