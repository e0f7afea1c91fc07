// Tests what a run's folder says of its process, and the end of its metrics.
#include "terrace/observe/run_process.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "terrace/base/files/file.h"
#include "terrace/observe/last_metrics.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

TEST(RunProcess, IsReadBack) {
  const ScratchFolder folder;
  EXPECT_FALSE(read_run_process(folder.path()));
  RunProcess trainer{.identity = identity_of_this_process(), .ranks = 16, .job = "1234"};
  trainer.state = ProcessState::failed;
  trainer.reason = "a \"broken\" disk\nat step 7";
  trainer.step = 7;
  write_run_process(folder.path(), trainer);
  const auto read = read_run_process(folder.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->identity.text(), trainer.identity.text());
  EXPECT_EQ(read->ranks, 16);
  EXPECT_EQ(read->job, "1234");
  EXPECT_EQ(read->state, ProcessState::failed);
  EXPECT_EQ(read->reason, trainer.reason);
  EXPECT_EQ(read->step, 7);
}

TEST(RunProcess, OfThisProcessHasTheNumberOfItsJob) {
  ::setenv("SLURM_JOB_ID", "77", 1);
  EXPECT_EQ(this_run_process(2).job, "77");
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(this_run_process(2).job, "");
  EXPECT_EQ(this_run_process(2).ranks, 2);
}

TEST(RunProcess, ASpoiledFileIsNone) {
  const ScratchFolder folder;
  for (const char* text : {"", "{", "[]", R"({"process": "a 1 2 b", "state": "resting"})", R"({"process": 3})"}) {
    write_text_atomically(folder / ".process.json", text);
    EXPECT_FALSE(read_run_process(folder.path())) << text;
  }
}

TEST(RunProcess, AFolderThatCannotBeWrittenDoesNotEndTheRun) {
  EXPECT_NO_THROW(write_run_process("/proc/no_such_folder", {.identity = identity_of_this_process()}));
}

TEST(LastMetrics, AreThoseOfTheWholeFilesEnd) {
  const ScratchFolder folder;
  EXPECT_TRUE(read_last_metrics(folder.path()).steps.empty());
  {
    MetricsWriter writer(folder.path(), 0, {.names = {.items = "tokens"}});
    for (int64_t step = 1; step <= 500; ++step) {
      writer.write(StepMetrics{.step = step, .loss = 1.0 / static_cast<double>(step), .items = 10 * step});
    }
  }
  const RunMetrics all = read_metrics(folder.path()), last = read_last_metrics(folder.path(), 5'000);
  EXPECT_EQ(last.names, all.names);
  EXPECT_LT(last.steps.size(), 50U);
  EXPECT_GT(last.steps.size(), 5U);
  EXPECT_EQ(last.steps.rbegin()->second.items, 5000);
  for (const auto& [step, metrics] : last.steps) EXPECT_EQ(metrics.loss, all.steps.at(step).loss);
  EXPECT_EQ(read_last_metrics(folder.path(), 1 << 30).steps.size(), 500U);
}

TEST(LastMetrics, SayWhenTheLastStepWasWritten) {
  const ScratchFolder folder;
  EXPECT_EQ(time_of_last_step(folder.path()), std::nullopt);
  const std::string step = R"("loss":1,"tokens":8,"tokens_per_second":2)";
  const auto write = [&](const std::string& lines) { write_text_atomically(folder.path() / "metrics.jsonl", lines); };
  write("{\"step\":1," + step + ",\"time\":100.5}\n{\"step\":2," + step + ",\"time\":200.25}\n" +
        R"({"step":2,"validation_loss":1,"time":300})" + "\n{\"step\":3," + step);  // an evaluation, and a cut line
  EXPECT_EQ(time_of_last_step(folder.path()), 200.25);
  write("{\"step\":1," + step + "}\n");  // of a version without times
  EXPECT_EQ(time_of_last_step(folder.path()), std::nullopt);
}

}  // namespace
}  // namespace terrace::observe
