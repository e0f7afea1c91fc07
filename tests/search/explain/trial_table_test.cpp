// Results of terrace search and of DeepHyper are read, and others refused with the line and the way out.
#include "terrace/search/explain/trial_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::search {
namespace {

class ResultsFile : public testing::Test {
 protected:
  TrialTable read(const std::string& text) const {
    write_text_atomically(path_, text);
    return read_trial_table(path_);
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code, ExitCode::bad_input);
      return error.what();
    }
    return "";
  }

  ScratchFolder folder_;
  std::filesystem::path path_ = folder_ / "results.csv";
};

TEST_F(ResultsFile, ReadsAFileOfDeepHyper) {
  const TrialTable trials = read(
      "p:layers,p:activation,p:rate,objective,job_id,job_status,m:timestamp_submit,m:timestamp_gather,m:size,m:note\r\n"
      "10,relu,1e-3,0.5,0.1,DONE,0.1,0.2,7,a\r\n"
      "9,gelu,0.001,F_oom,0.0,DONE,0.1,0.3,,b\r\n"
      "10.0,relu,,-2,0.2,DONE,0.2,0.4,nan,c\r\n");
  EXPECT_EQ(trials.size(), 3);
  EXPECT_EQ(trials.failed(), 1);
  ASSERT_EQ(trials.parameters.size(), 3);
  EXPECT_EQ(trials.parameters[0].name, "layers");
  EXPECT_TRUE(trials.parameters[0].is_numeric);
  EXPECT_EQ(trials.parameters[0].indices, (std::vector<size_t>{1, 0, 1}));  // 9 < 10 = 10.0
  EXPECT_FALSE(trials.parameters[1].is_numeric);
  EXPECT_EQ(trials.parameters[1].values, (std::vector<std::string>{"gelu", "relu"}));
  EXPECT_EQ(trials.parameters[2].indices, (std::vector<size_t>{1, 1, 0}));  // what is missing comes first
  EXPECT_EQ(trials.parameters[2].values.front(), "");
  ASSERT_EQ(trials.objectives.size(), 1);
  EXPECT_EQ(trials.objectives[0].name, "objective");
  EXPECT_EQ(trials.objectives[0].values[0], 0.5);
  EXPECT_TRUE(std::isnan(trials.objectives[0].values[1]));
  EXPECT_EQ(trials.objectives[0].values[2], -2);
  EXPECT_EQ(trials.failures, (std::vector<std::string>{"", "F_oom", ""}));
  EXPECT_EQ(trials.job_ids, (std::vector<std::string>{"0.1", "0.0", "0.2"}));
  ASSERT_EQ(trials.figures.size(), 1);  // times of the search and words are none
  EXPECT_EQ(trials.figures[0].name, "size");
  EXPECT_TRUE(std::isnan(trials.figures[0].values[2]));
}

TEST_F(ResultsFile, OwnFileHasTheNamesAndSignsOfItsStudy) {
  write_text_atomically(folder_ / "study.txt",
                        "objective = step_seconds, to be minimized\nmodel.layers = 4\nname = \"frontier\"\n");
  const TrialTable trials = read("p:layout.tensor,objective,m:step_seconds,m:mfu\n1,-0.5,0.5,0.3\n2,F_layout,,\n");
  EXPECT_EQ(trials.objectives[0].name, "step_seconds");
  EXPECT_TRUE(trials.objectives[0].smaller_is_better);
  EXPECT_EQ(trials.objectives[0].values[0], 0.5);
  EXPECT_TRUE(trials.figures[0].smaller_is_better);
  EXPECT_FALSE(trials.figures[1].smaller_is_better);
  EXPECT_EQ(trials.job_ids[1], "1");
  EXPECT_EQ(read_trial_table(folder_.path()).path, path_);  // the folder stands for its file
}

TEST_F(ResultsFile, SeveralObjectivesFailTogether) {
  const TrialTable trials = read("objective_0,objective_1,p:x\n1,2,a\nF,F,b\n3,F_nan,c\n");
  ASSERT_EQ(trials.objectives.size(), 2);
  EXPECT_EQ(trials.objectives[1].name, "objective_1");
  EXPECT_EQ(trials.objectives[1].values[0], 2);
  EXPECT_EQ(trials.failures, (std::vector<std::string>{"", "F", "F_nan"}));
  EXPECT_TRUE(std::isnan(trials.objectives[0].values[2]));
}

TEST_F(ResultsFile, SuccessiveHalvingCountsAtTheFirstBudget) {
  const std::string head = "p:x,objective,job_id,m:trial,m:budget,m:loss\n";
  const TrialTable trials = read(head + "1,-3,0,0,10,3\n2,-4,1,1,10,4\n1,-2,2,0,30,2\n3,F_nan,3,3,10,\n");
  EXPECT_EQ(trials.job_ids, (std::vector<std::string>{"0", "1", "3"}));
  EXPECT_EQ(trials.failed(), 1);
  ASSERT_EQ(trials.figures.size(), 1);
  EXPECT_TRUE(trials.figures[0].smaller_is_better);
  EXPECT_NE(refusal(head + "1,-3,0,0,10,3\n1,-2,2,0,30,2\n2,best,3,3,10,\n").find(":4: objective = best"),
            std::string::npos);
}

TEST_F(ResultsFile, RefusesBadRowsWithLineAndWayOut) {
  const std::string path = path_.string();
  EXPECT_EQ(refusal("p:x,objective\n1,2\n1\n"),
            path + ":3: has 1 cells, but the first row 2; correct or remove the row");
  EXPECT_EQ(refusal("p:x,objective\n1,\"2\n"), path + ":2: a quotation mark is misplaced; correct or remove the row");
  for (const char* bad : {"fast", "nan", "inf", "1e999"}) {
    EXPECT_EQ(refusal(fmt::format("p:x,objective\n1,2\n1,{}\n", bad)),
              fmt::format("{}:3: objective = {} is neither a number nor a failure, such as F_oom; correct or remove "
                          "the row",
                          path, bad));
  }
  EXPECT_NE(refusal("p:x,objective\n1,\n").find(":2: objective = nothing is neither"), std::string::npos);
  EXPECT_EQ(refusal("p:x,loss\n1,2\n"),
            path + ": has no column objective; give a results.csv of terrace search or of DeepHyper");
  for (const char* text : {"objective,m:x\n1,2\n", ""}) {
    EXPECT_EQ(refusal(text), path +
                                 ": has no column of a parameter, such as p:layout.tensor; give a results.csv of "
                                 "terrace search or of DeepHyper");
  }
  EXPECT_EQ(refusal("p:x,p:x,objective\n1,2,3\n"), path + ":1: has two columns p:x; remove one of them");
  EXPECT_THROW(read_trial_table(folder_ / "missing.csv"), UserError);
}

}  // namespace
}  // namespace terrace::search
