// Reads what was written, also by others meanwhile, and refuses results that do not belong to the search.
#include "terrace/search/results.h"

#include <gtest/gtest.h>

#include <string>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

class ResultsFolder : public testing::Test {
 protected:
  std::string refusal() const {
    try {
      const Results results(folder_ / "run", study_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  void append(const std::string& text) const {
    write_text_atomically(csv_, (std::filesystem::exists(csv_) ? read_text(csv_) : "") + text);
  }

  ScratchFolder folder_;
  Study study_ = small_study(folder_);
  std::filesystem::path csv_ = folder_ / "run" / "results.csv";
};

TEST_F(ResultsFolder, ColumnsOfDeepHyper) {
  { const Results results(folder_ / "run", study_); }
  EXPECT_EQ(read_text(csv_),
            "p:layout.pipeline,p:layout.sharding,p:layout.tensor,objective,job_id,job_status,m:timestamp_submit,"
            "m:timestamp_gather,m:reason,m:step_seconds,m:tokens_per_second,m:flops_per_device,m:mfu,m:hfu,"
            "m:memory_bytes,m:shortest_seconds,m:longest_seconds,m:median_difference\n");
}

TEST_F(ResultsFolder, ReadsBackEachTrial) {
  const Trial done{.job_id = 0,
                   .point = {1, 0, 2},
                   .objectives = {-0.1},
                   .outcome = {.figures = {0.1, 2, 3, 0.4, 0.5, 6e9, 0.08, 0.125, 0.042}},
                   .submitted = 1,
                   .gathered = 2.5};
  const Trial failed{.job_id = 1,
                     .point = {0, 1, 0},
                     .outcome = {.failure = "oom", .reason = "two\nlines, \"quoted\""},
                     .submitted = 3,
                     .gathered = 4};
  {
    Results results(folder_ / "run", study_);
    results.add(done);
    results.add(failed);
  }
  EXPECT_TRUE(
      read_text(csv_).ends_with("2,ddp,3,-0.1,0,DONE,1.000000,2.500000,,0.1,2,3,0.4,0.5,6000000000,0.08,0.125,0.042\n"
                                "1,zero1,1,F_oom,1,DONE,3.000000,4.000000,\"two lines, \"\"quoted\"\"\","
                                ",,,,,,,,\n"));
  const Results results(folder_ / "run", study_);
  ASSERT_EQ(results.earlier().size(), 2);
  EXPECT_EQ(results.earlier()[0].point, done.point);
  EXPECT_EQ(results.earlier()[0].objectives, done.objectives);
  EXPECT_EQ(results.earlier()[0].outcome.figures, done.outcome.figures);
  EXPECT_EQ(results.earlier()[0].gathered, 2.5);
  EXPECT_TRUE(results.earlier()[1].failed());
  EXPECT_EQ(results.earlier()[1].outcome.failure, "oom");
  EXPECT_EQ(results.earlier()[1].outcome.reason, "two lines, \"quoted\"");
  EXPECT_EQ(results.earlier()[1].job_id, 1);
}

TEST_F(ResultsFolder, ReadsTheRowsOfOthersAndRemovesATornOne) {
  Results results(folder_ / "run", study_), others(folder_ / "run", study_);
  const Trial trial{
      .job_id = 4, .point = {1, 0, 2}, .objectives = {-0.1}, .outcome = {.figures = {0.1, 2, 3, 0.4, 0.5, 6}}};
  EXPECT_TRUE(results.read_new().empty());
  others.add(trial);
  append("2,ddp,1,F_oom,5,DONE,3.0");
  const std::vector<Trial> rows = results.read_new();
  ASSERT_EQ(rows.size(), 1) << "the writer of the last row was killed";
  EXPECT_EQ(rows[0].job_id, 4);
  EXPECT_EQ(rows[0].point, trial.point);
  results.add({.job_id = 6, .point = {0, 0, 0}, .outcome = {.failure = "oom"}});
  EXPECT_TRUE(results.read_new().empty()) << "its own row is not new to it";
  EXPECT_EQ(others.read_new().size(), 1);
  append("1,ddp,1\n");
  try {
    results.read_new();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), csv_.string() + ":4: has 3 cells, but the first row 18; correct or remove the row");
  }
}

TEST_F(ResultsFolder, RefusesResultsOfAnotherSpace) {
  { const Results results(folder_ / "run", study_); }
  append("3,ddp,1,0.1,0,DONE,0,1,,1,1,1,1,1,1,1,1,1\n");
  EXPECT_EQ(refusal(), csv_.string() +
                           ":2: the row is not in the space; use another --output, or warm-start a new "
                           "search by --from");
  write_text_atomically(csv_, "p:x,objective\n");
  EXPECT_NE(refusal().find("belongs to another space: its first row is not p:layout.pipeline,"), std::string::npos);
}

TEST_F(ResultsFolder, RefusesDamagedRows) {
  { const Results results(folder_ / "run", study_); }
  const std::string first = read_text(csv_);
  append("1,ddp,1\n");
  EXPECT_EQ(refusal(), csv_.string() + ":2: has 3 cells, but the first row 18; correct or remove the row");
  write_text_atomically(csv_, first + "1,ddp,1,fast,0,DONE,0,1,,1,1,1,1,1,1,1,1,1\n");
  EXPECT_EQ(refusal(), csv_.string() + ":2: objective = fast is neither a number nor a failure, such as F_oom");
  write_text_atomically(csv_, first + "\"1,ddp,1\n");
  EXPECT_EQ(refusal(), csv_.string() + ":2: a quotation mark is misplaced; correct or remove the row");
}

TEST_F(ResultsFolder, RefusesTrialsOfAnotherMachineOrConfiguration) {
  { const Results results(folder_ / "run", study_); }
  study_ = small_study(folder_, "software = \"megatron\"\n");
  EXPECT_EQ(refusal(), (folder_ / "run").string() +
                           " holds trials with 'name = \"terrace\"' where this search has 'name = \"megatron\"'; use "
                           "another --output");
  study_ = small_study(folder_, "direction = \"maximize\"\n");
  EXPECT_NE(refusal().find("'objective = step_seconds, to be minimized' where this search has 'objective = "
                           "step_seconds, to be maximized'"),
            std::string::npos);
}

TEST_F(ResultsFolder, ReadsResultsOfOtherProgramsForAWarmStart) {
  write_text_atomically(folder_ / "other.csv",
                        "job_id,p:layout.tensor,p:layout.sharding,p:layout.pipeline,objective\r\n"
                        "0,2,zero1,4,-0.5\r\n1,5,zero1,4,-0.4\r\n2,1,ddp,1,F\r\n");
  const EarlierTrials earlier = read_results(folder_ / "other.csv", study_);
  ASSERT_EQ(earlier.trials.size(), 2);
  EXPECT_EQ(earlier.skipped, 1);
  EXPECT_EQ(earlier.trials[0].point, (Point{2, 1, 1}));
  EXPECT_EQ(earlier.trials[0].objectives, std::vector<double>{-0.5});
  EXPECT_TRUE(earlier.trials[1].failed());
  write_text_atomically(folder_ / "other.csv", "p:layout.tensor,objective\n1,2\n");
  EXPECT_THROW(read_results(folder_ / "other.csv", study_), UserError);
}

}  // namespace
}  // namespace terrace::search
