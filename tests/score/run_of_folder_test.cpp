// Tests which run the folder of a training is.
#include "terrace/score/run_of_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/observe/metrics.h"
#include "tests/scratch_folder.h"

namespace terrace::score {
namespace {

using testing::HasSubstr;

constexpr const char* configuration = R"([model]
family = "gpt"
layers = 2
width = 64
heads = 4
sequence = 128
vocabulary = 512
[train]
steps = 8
global_batch = 8
micro_batch = 1
)";

class RunOfFolder : public testing::Test {
 protected:
  // Writes the folder of a run whose steps took so many seconds.
  void write(const std::vector<double>& seconds, const std::string& more = "",
             const std::string& facts = R"({"ranks": 4})") {
    write_text_atomically(path() / "resolved.toml", configuration + more);
    write_text_atomically(path() / "run.json", facts);
    observe::MetricsWriter metrics(path(), 0);
    for (size_t i = 0; i < seconds.size(); ++i) {
      metrics.write(observe::StepMetrics{.step = static_cast<int64_t>(i) + 1, .step_seconds = seconds[i]});
    }
  }
  std::filesystem::path path() const { return folder_.path(); }

  const ScratchFolder folder_;
  const Given laptop_ = {.machine = "laptop"};
};

TEST_F(RunOfFolder, HasTheMedianOfItsStepsAfterTheFirstOnes) {
  write({9, 8, 7, 1, 2, 1.5, 1.6, 1.2});
  const PublishedRun run = run_of_folder(path(), laptop_);
  EXPECT_TRUE(run.problems.empty()) << run.problems.front();
  EXPECT_EQ(run.seconds, 1.5);
  EXPECT_EQ(run.target.devices, 4);
  EXPECT_EQ(run.target.machine.name, "laptop");
  EXPECT_EQ(run.target.software.name, "terrace");
  EXPECT_EQ(run.configs.at(0).train.global_batch, 8);
}

TEST_F(RunOfFolder, CountsTheStepsOfTheLastPhaseAlone) {
  write({9, 8, 7, 5, 5, 5, 2, 2}, "[[data.phases]]\nfrom_step = 7\nglobal_batch = 4\n");
  const PublishedRun run = run_of_folder(path(), laptop_);
  ASSERT_TRUE(run.problems.empty()) << run.problems.front();
  EXPECT_EQ(run.seconds, 2);
  EXPECT_EQ(run.configs.at(0).train.global_batch, 4);
}

TEST_F(RunOfFolder, NamesEveryProblem) {
  write({9, 8, 7}, "", "{}");
  const PublishedRun run = run_of_folder(path(), {});
  ASSERT_EQ(run.problems.size(), 3U);
  EXPECT_THAT(run.problems[0], HasSubstr("name it by --machine"));
  EXPECT_THAT(run.problems[1], HasSubstr("run.json has no \"ranks\""));
  EXPECT_THAT(run.problems[2], HasSubstr("of 3 steps the first 3 do not count"));
}

TEST_F(RunOfFolder, RefusesAFolderWithoutARun) { EXPECT_THROW(run_of_folder(path(), laptop_), UserError); }

}  // namespace
}  // namespace terrace::score
