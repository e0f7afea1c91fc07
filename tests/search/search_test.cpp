// Searches a small space by simulation, kills and resumes the search, and starts others from its results.
#include "terrace/search/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/config/config.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/prediction.h"
#include "terrace/search/search_report.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

// The table without the columns of times, which no two searches share.
std::string without_times(const std::string& csv) {
  std::string text;
  size_t commas = 0;
  for (const char c : csv) {
    if (c == '\n') commas = 0;
    if (c == ',') ++commas;
    if (commas < 6 || commas > 7) text += c;
  }
  return text;
}

class SmallSearch : public testing::Test {
 protected:
  SearchResult run(const std::string& more, const std::string& output) {
    const Study study = small_study(folder_, more);
    return search(study, {.folder = folder_ / output});
  }
  std::vector<std::string> study_texts(const Trial& trial) { return small_study(folder_).space.texts(trial.point); }
  std::string csv(const std::string& output) const { return read_text(folder_ / output / "results.csv"); }

  ScratchFolder folder_;
};

TEST_F(SmallSearch, TriesEveryPointOnce) {
  const SearchResult all = run("method = \"exhaustive\"\n", "all");
  EXPECT_EQ(all.trials.size(), 32);
  EXPECT_EQ(all.end, SearchEnd::points);
  std::set<Point> points;
  for (const Trial& trial : all.trials) points.insert(trial.point);
  EXPECT_EQ(points.size(), 32);
  for (const Trial& trial : all.trials) {
    const std::string tensor = study_texts(trial)[2], pipeline = study_texts(trial)[0];
    // Four layers, the embedding and the head make no more than six stages.
    const bool fits = 8 % (std::stoi(tensor) * std::stoi(pipeline)) == 0 && std::stoi(pipeline) <= 6;
    EXPECT_EQ(trial.outcome.failure, fits ? "" : "layout") << tensor << " " << pipeline << trial.outcome.reason;
    EXPECT_EQ(!trial.failed(), fits);
  }
}

TEST_F(SmallSearch, GivesWhatThePlannerPredicts) {
  const Study study = small_study(folder_, "method = \"exhaustive\"\n");
  const SearchResult result = search(study, {.folder = folder_ / "all"});
  const Trial best = result.best(1).front();
  const plan::Target target{
      .machine = machine::load("frontier"), .software = machine::load_software("terrace"), .devices = 8};
  const plan::Prediction prediction = plan::predict(configuration_of(study, best.point), target);
  EXPECT_EQ(best.objectives.front(), -prediction.step_seconds);
  EXPECT_EQ(best.outcome.figures[0], prediction.step_seconds);
  EXPECT_EQ(best.outcome.figures[3], prediction.mfu());
  EXPECT_EQ(best.outcome.figures[5], prediction.fullest().memory.total());
  for (const Trial& trial : result.trials) EXPECT_TRUE(trial.failed() || trial.objectives <= best.objectives);
}

TEST_F(SmallSearch, ComparesBatchesByTheTimeToTheSameLoss) {
  const Study study = parse_study(
      "[search]\nevaluator = \"simulate\"\nobjective = \"same_loss_seconds\"\nmethod = \"exhaustive\"\nmachine = "
      "\"frontier\"\ndevices = 8\nnoise_scale = 48\nconfig = \"" +
          write_small_config(folder_) +
          "\"\n[parameters.train.global_batch]\ntype = \"ordered\"\nvalues = [8, 24, 96]\n",
      "space.toml");
  const SearchResult result = search(study, {.folder = folder_ / "batches"});
  // 1 + 48/8 = 7, 3 and 1.5 times the fewest steps; 1 + 8/48 = 7/6, 3/2 and 3 times the fewest samples.
  const double steps[] = {7.0 / 3, 1, 0.5}, samples[] = {7.0 / 9, 1, 2};
  ASSERT_EQ(result.trials.size(), 3u);
  for (const Trial& trial : result.trials) {
    const double batch = study.space.number(trial.point, "train.global_batch");
    const size_t place = batch == 8 ? 0 : batch == 24 ? 1 : 2;
    EXPECT_NEAR(trial.outcome.figures[9], steps[place] * trial.outcome.figures[0], 1e-12);
    EXPECT_NEAR(trial.outcome.figures[10], samples[place], 1e-12);
    EXPECT_EQ(trial.objectives.front(), -trial.outcome.figures[9]);
  }
}

TEST_F(SmallSearch, TakesTheMachineThatATrialNames) {
  const std::string config = write_small_config(folder_);
  const Study study = parse_study(
      "[search]\nevaluator = \"simulate\"\nobjective = \"step_seconds\"\nmethod = "
      "\"exhaustive\"\nmachine = \"dgx-{gpu}\"\ndevices = 8\nconfig = \"" +
          config +
          "\"\n[parameters.gpu]\ntype = \"categorical\"\nvalues = [\"a100-80gb\", "
          "\"h100\", \"none\"]\n",
      "space.toml");
  const SearchResult result = search(study, {.folder = folder_ / "machines"});
  EXPECT_NE(result.trials[0].objectives, result.trials[1].objectives);
  EXPECT_EQ(result.trials[2].outcome.failure, "layout");
  EXPECT_NE(result.trials[2].outcome.reason.find("dgx-none"), std::string::npos);
}

TEST_F(SmallSearch, FailsForLackOfMemoryWithTheReason) {
  const std::string config = folder_ / "large.toml";
  write_text_atomically(config,
                        "[model]\nlayers = 96\nwidth = 12288\nheads = 96\nsequence = 2048\nvocabulary = 50257\n"
                        "[train]\nglobal_batch = 8\nmicro_batch = 1\nsteps = 10\n");
  const Study study = parse_study(
      search_table(config) + "[parameters.layout.tensor]\ntype = \"ordered\"\nvalues = [1, 8]\n", "space.toml");
  const SearchResult result = search(study, {.folder = folder_ / "large"});
  ASSERT_EQ(result.failed(), 2);
  EXPECT_EQ(result.trials[0].outcome.failure, "oom");
  EXPECT_NE(result.trials[0].outcome.reason.find("stage 0 needs "), std::string::npos);
  EXPECT_NE(failure_of_all(result).find("all 2 trials failed, 1 of them by F_oom: "), std::string::npos);
  EXPECT_NE(csv("large").find(",F_oom,0,DONE,"), std::string::npos);
}

TEST_F(SmallSearch, RepeatsExactly) {
  run("trials = 20\nmethod = \"bayesian\"\n", "one");
  run("trials = 20\nmethod = \"bayesian\"\n", "two");
  EXPECT_EQ(without_times(csv("one")), without_times(csv("two")));
}

TEST_F(SmallSearch, ContinuesAfterAKillAtAnyByteAsIfThereHadBeenNone) {
  // A proposal from the results takes longer, and does not depend on the byte.
  for (const auto& [more, stride] :
       {std::pair("trials = 20\nmethod = \"random\"\n", 1), std::pair("trials = 20\nmethod = \"bayesian\"\n", 20)}) {
    run(more, "whole");
    const std::string whole = csv("whole");
    const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
    const auto expect_same_after = [&](size_t size, int64_t resumed) {
      std::filesystem::copy(
          folder_ / "whole", folder_ / "killed",
          std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
      std::filesystem::resize_file(folder_ / "killed" / "results.csv", size);
      EXPECT_EQ(run(more, "killed").resumed, resumed);
      ASSERT_EQ(without_times(csv("killed")), without_times(whole)) << "killed after " << size << " bytes";
    };
    for (size_t size = last; size < whole.size(); size += static_cast<size_t>(stride)) expect_same_after(size, 19);
    expect_same_after(whole.size(), 20);
    // Killed while the first row was written, and before.
    for (const size_t size : {size_t{0}, size_t{10}, whole.find('\n') + 1, whole.find('\n') + 30})
      expect_same_after(size, 0);
    std::filesystem::remove_all(folder_ / "whole");
    std::filesystem::remove_all(folder_ / "killed");
  }
}

// Two stages; chunks exist only with one of the two schedules. 2 * (1 + 2) points.
const char* const schedules =
    "[parameters.layout.schedule]\ntype = \"categorical\"\nvalues = [\"1f1b\", \"interleaved\"]\n"
    "[parameters.layout.chunks]\ntype = \"ordered\"\nvalues = [2, 3]\nwhen = { layout.schedule = \"interleaved\" }\n"
    "[parameters.train.micro_batch]\ntype = \"ordered\"\nvalues = [1, 2]\n"
    "[derived]\nlayout.pipeline = 2\n";

TEST_F(SmallSearch, LeavesOutParametersWhoseConditionDoesNotHoldAndContinues) {
  const std::string config = write_small_config(folder_);
  for (const char* method : {"bayesian", "random", "exhaustive"}) {
    const Study study =
        parse_study(search_table(config, fmt::format("method = \"{}\"\n", method)) + schedules, "space.toml");
    const std::filesystem::path folder = folder_ / method;
    const SearchResult all = search(study, {.folder = folder});
    EXPECT_EQ(all.trials.size(), 6) << method;
    EXPECT_EQ(all.end, SearchEnd::points);
    for (const Trial& trial : all.trials) {
      const config::Config run = configuration_of(study, trial.point);
      const bool is_interleaved = trial.point[1] == 1;
      EXPECT_EQ(run.layout.chunks, is_interleaved ? 2 + trial.point[0] : 1);
      EXPECT_EQ(study.space.texts(trial.point)[0].empty(), !is_interleaved);
      EXPECT_FALSE(trial.failed()) << trial.outcome.reason;
    }
    const std::string whole = csv(method);
    EXPECT_NE(whole.find("\n,1f1b,"), std::string::npos) << whole;
    // A search continues from a file with empty cells as if it had not been killed.
    const size_t half = whole.find('\n', whole.size() / 2);
    std::filesystem::resize_file(folder / "results.csv", half + 3);
    EXPECT_EQ(search(study, {.folder = folder}).trials.size(), 6);
    EXPECT_EQ(without_times(csv(method)), without_times(whole)) << method;
    const SearchResult warm = search(study, {.folder = folder_ / "warm", .from = folder / "results.csv"});
    EXPECT_TRUE(warm.trials.empty()) << "every point was tried by the search that this one learns from";
    EXPECT_EQ(warm.skipped, 0);
    const std::vector<Trial> plain = {*std::ranges::find(all.trials, 0, [](const Trial& one) { return one.point[1]; })};
    EXPECT_FALSE(json_of(study, all, plain, {})["best"][0]["parameters"].contains("layout.chunks"));
    EXPECT_NE(table_of(study, plain).find("  -              1f1b"), std::string::npos) << table_of(study, plain);
    std::filesystem::remove_all(folder_ / "warm");
  }
}

TEST_F(SmallSearch, ContinuesWithMoreTrials) {
  run("method = \"bayesian\"\ntrials = 10\n", "grown");
  const std::string before = csv("grown");
  EXPECT_EQ(run("method = \"bayesian\"\ntrials = 15\n", "grown").trials.size(), 15);
  EXPECT_TRUE(csv("grown").starts_with(before));
  // Fewer trials than there are lose none.
  EXPECT_EQ(run("method = \"bayesian\"\ntrials = 5\n", "grown").trials.size(), 15);
}

TEST_F(SmallSearch, KeepsEarlierTrialsThatItWouldNotPropose) {
  run("method = \"bayesian\"\ntrials = 10\n", "other");
  const SearchResult result = run("method = \"bayesian\"\ntrials = 25\nseed = 2\n", "other");
  EXPECT_EQ(result.trials.size(), 25);
  EXPECT_EQ(result.resumed, 10);
  std::set<Point> points;
  std::set<int64_t> jobs;
  for (const Trial& trial : result.trials) {
    EXPECT_TRUE(points.insert(trial.point).second);
    EXPECT_TRUE(jobs.insert(trial.job_id).second);
  }
  EXPECT_EQ(run("method = \"bayesian\"\ntrials = 25\nseed = 3\n", "other").trials.size(), 25);
}

TEST_F(SmallSearch, StartsFromTheResultsOfAnother) {
  run("method = \"exhaustive\"\ntrials = 31\n", "first");
  const Study study = small_study(folder_);
  const SearchResult result = search(study, {.folder = folder_ / "second", .from = folder_ / "first" / "results.csv"});
  EXPECT_EQ(result.trials.size(), 1) << "the only point that the first search left";
  EXPECT_EQ(result.skipped, 0);
}

TEST_F(SmallSearch, EndsAtTheTimeLimit) {
  const Study study = small_study(folder_);
  const SearchResult result = search(study, {.folder = folder_ / "short", .time_limit = 1e-9});
  EXPECT_EQ(result.end, SearchEnd::time);
  EXPECT_TRUE(result.trials.empty());
}

TEST_F(SmallSearch, WritesTheBestConfigurations) {
  const Study study = small_study(folder_, "method = \"exhaustive\"\n");
  const SearchResult result = search(study, {.folder = folder_ / "all"});
  const std::vector<Trial> best = result.best(3);
  const auto files = write_best(study, best, folder_ / "all");
  ASSERT_EQ(files.size(), 3);
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i], folder_ / "all" / ("best_" + std::to_string(i + 1) + ".toml"));
    EXPECT_EQ(config::load(files[i], models::planned_families()).layout, configuration_of(study, best[i].point).layout);
  }
  EXPECT_EQ(write_best(study, result.best(1), folder_ / "all").size(), 1);
  EXPECT_FALSE(std::filesystem::exists(files[1]));
  const Json json = json_of(study, result, best, files);
  EXPECT_EQ(json["trials"], 32);
  EXPECT_EQ(json["best"][0]["value"], -best[0].objectives[0]);
  EXPECT_EQ(json["best"][0]["figures"]["step_seconds"], -best[0].objectives[0]);
  EXPECT_TRUE(text_of(study, result, best).starts_with("32 trials: "));
}

}  // namespace
}  // namespace terrace::search
