// Tests what is said of runs from their folders, in every state that a run can be in.
#include "terrace/launch/run_status.h"

#include <gtest/gtest.h>

#include <chrono>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/launch/job_record.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/run_process.h"
#include "tests/scratch_folder.h"

namespace terrace::launch {
namespace {

namespace fs = std::filesystem;
using observe::ProcessState;

// A run of 100 steps of half a second, of which some are made.
class StatusOfRun : public testing::Test {
 protected:
  void make_steps(int64_t steps) {
    write_text_atomically(run() / "run.json", R"({"steps": 100})");
    observe::MetricsWriter writer(run(), 0, {.names = {.items = "tokens"}});
    for (int64_t step = 1; step <= steps; ++step) {
      writer.write(observe::StepMetrics{
          .step = step, .loss = 3.25, .items = 8 * step, .items_per_second = 16, .step_seconds = 0.5});
    }
  }
  void set_process(ProcessState state, bool here, const std::string& job = "", const std::string& reason = "") {
    observe::RunProcess trainer{.identity = identity_of_this_process(), .job = job, .state = state, .reason = reason};
    if (!here) trainer.identity = {.host = "far", .process_id = 12, .start = "34", .kernel = "another"};
    observe::write_run_process(run(), trainer);
  }
  void record_job(const std::string& job) {
    write_text_atomically(run() / job_record_name,
                          text_of({.job = job, .log = (folder_ / "job.log").string(), .steps = 100}));
  }
  void be_silent_for(double seconds) {
    for (const fs::path& file : {run() / "metrics.jsonl", run() / ".process.json", run()}) {
      if (!fs::exists(file)) continue;
      fs::last_write_time(
          file, fs::file_time_type::clock::now() -
                    std::chrono::duration_cast<fs::file_time_type::duration>(std::chrono::duration<double>(seconds)));
    }
  }
  // The status of the run with the answer of Slurm in jobs_; by default Slurm cannot be asked.
  RunStatus status() {
    return status_of({run()},
                     [this](const auto& asked) {
                       asked_ = asked;
                       return jobs_;
                     })
        .front();
  }
  const fs::path& run() const { return folder_.path(); }

  ScratchFolder folder_;
  std::optional<JobsByNumber> jobs_;
  std::vector<std::string> asked_;
};

TEST_F(StatusOfRun, ARunningOneHasItsFiguresAndTheTimeThatIsLeft) {
  make_steps(40);
  set_process(ProcessState::running, true);
  const RunStatus status = this->status();
  EXPECT_EQ(status.state, RunState::running);
  EXPECT_EQ(status.reason, "");
  EXPECT_EQ(status.step, 40);
  EXPECT_EQ(status.steps, 100);
  EXPECT_EQ(status.loss, 3.25);
  EXPECT_EQ(status.items_per_second, 16);
  EXPECT_EQ(status.seconds_left, 30);  // 60 steps of half a second
  EXPECT_LT(status.seconds_since_sign, 60);
  EXPECT_TRUE(asked_.empty());  // no job is recorded
}

TEST_F(StatusOfRun, AProcessOfThisHostThatIsGoneHasDied) {
  make_steps(40);
  observe::RunProcess trainer{.identity = identity_of_this_process()};
  trainer.identity.start = "1";
  observe::write_run_process(run(), trainer);
  EXPECT_EQ(status().state, RunState::failed);
  EXPECT_NE(status().reason.find("has died without a word"), std::string::npos) << status().reason;
}

TEST_F(StatusOfRun, ALivingProcessThatIsSilentIsRunningAndSaidToBeSilent) {
  make_steps(40);
  set_process(ProcessState::running, true);
  be_silent_for(3600);
  EXPECT_EQ(status().state, RunState::running);
  EXPECT_EQ(status().reason.find("silent for 1 h"), 0U) << status().reason;
}

TEST_F(StatusOfRun, ASilentProcessOfAnotherHostIsTakenForDeadOnlyAfterTheAllowedTime) {
  make_steps(40);
  set_process(ProcessState::running, false);
  be_silent_for(silence_allowed(0.5) - 20);
  EXPECT_EQ(status().state, RunState::running);
  be_silent_for(silence_allowed(0.5) + 20);
  EXPECT_EQ(status().state, RunState::failed);
  EXPECT_NE(status().reason.find("process 12 on far cannot be asked from here"), std::string::npos) << status().reason;
}

TEST_F(StatusOfRun, SlurmDecidesWhetherAJobOfAnotherHostLives) {
  make_steps(40);
  set_process(ProcessState::running, false, "7");
  jobs_ = JobsByNumber{{"7", {"RUNNING", "None"}}};
  EXPECT_EQ(status().state, RunState::running);
  EXPECT_EQ(asked_, std::vector<std::string>{"7"});
  jobs_ = JobsByNumber{{"7", {"NODE_FAIL", "None"}}};
  EXPECT_EQ(status().state, RunState::failed);
  EXPECT_EQ(status().reason, "job 7 is over, and the run did not end by itself; job 7 is NODE_FAIL");
  jobs_ = JobsByNumber{};  // Slurm has forgotten it
  EXPECT_EQ(status().reason, "job 7 is over, and the run did not end by itself");
}

TEST_F(StatusOfRun, AJobInTheQueueIsQueuedBeforeTheFirstStepAndBetweenLinks) {
  record_job("8");
  jobs_ = JobsByNumber{{"8", {"PENDING", "Resources"}}};
  EXPECT_EQ(status().state, RunState::queued);
  EXPECT_EQ(status().reason, "job 8 is PENDING (Resources)");
  EXPECT_EQ(status().steps, 100);
  make_steps(40);
  set_process(ProcessState::stopped, false, "8", "on request");
  EXPECT_EQ(status().state, RunState::queued);
  EXPECT_EQ(status().step, 40);
  EXPECT_EQ(status().seconds_left, 30);
}

TEST_F(StatusOfRun, AJobThatBeginsIsRunning) {
  record_job("8");
  jobs_ = JobsByNumber{{"8", {"RUNNING", "None"}}};
  EXPECT_EQ(status().state, RunState::running);
  EXPECT_EQ(status().reason, "job 8 begins or ends");
}

TEST_F(StatusOfRun, AJobThatEndedBeforeTheRunBeganHasFailedWithItsLastWords) {
  record_job("8");
  write_text_atomically(folder_ / "job.log", "module: not found\nterrace launch: a module could not be loaded\n\n");
  jobs_ = JobsByNumber{{"8", {"FAILED", "NonZeroExitCode"}}};
  EXPECT_EQ(status().state, RunState::failed);
  EXPECT_EQ(status().reason, "job 8 ended before the run began; job 8 is FAILED (NonZeroExitCode)");
  EXPECT_EQ(status().last_words, "terrace launch: a module could not be loaded");
}

// Reasons as squeue prints them, in the spellings of several versions.
TEST_F(StatusOfRun, AJobThatDoesNotBeginByItselfIsHeldWithTheWayOut) {
  record_job("8");
  const auto expect_held = [&](const SlurmJob& job, const std::string& reason) {
    jobs_ = JobsByNumber{{"8", job}};
    EXPECT_EQ(status().state, RunState::held) << job.reason;
    EXPECT_EQ(status().reason, reason);
  };
  expect_held({"PENDING", "JobHeldUser"}, "job 8 is PENDING (JobHeldUser): scontrol release 8 lets it begin");
  expect_held({"PENDING", "JobHeldAdmin"},
              "job 8 is PENDING (JobHeldAdmin): scontrol release 8 lets it begin, by an administrator alone");
  expect_held({"PENDING", "JobHoldMaxRequeue"},
              "job 8 is PENDING (JobHoldMaxRequeue): scontrol release 8 lets it begin");
  for (const std::string reason : {"launch failed requeued held", "launch_failed_requeued_held"}) {
    expect_held({"PENDING", reason}, "job 8 is PENDING (" + reason + "): scontrol release 8 lets it begin");
  }
  expect_held({"REQUEUE_HOLD", "None"}, "job 8 is REQUEUE_HOLD: scontrol release 8 lets it begin");
  expect_held({"PENDING", "DependencyNeverSatisfied"},
              "job 8 is PENDING (DependencyNeverSatisfied): it will never begin: end it with scancel 8 and submit it "
              "again");
  for (const std::string reason : {"Resources", "Priority", "Dependency", "BeginTime", "QOSMaxJobsPerUserLimit"}) {
    jobs_ = JobsByNumber{{"8", {"PENDING", reason}}};
    EXPECT_EQ(status().state, RunState::queued) << reason;
  }
  jobs_ = JobsByNumber{{"8", {"RUNNING", "None"}}};
  EXPECT_EQ(status().state, RunState::running);
}

TEST_F(StatusOfRun, AJobOfWhichNothingIsKnownIsSaidToHaveBeenSubmitted) {
  record_job("8");
  EXPECT_EQ(status().state, RunState::queued);
  EXPECT_EQ(status().reason, "job 8 was submitted; squeue cannot be asked here");
}

TEST_F(StatusOfRun, TheEndsThatARunRecordsAreToldApart) {
  make_steps(100);
  set_process(ProcessState::finished, false);
  EXPECT_EQ(status().state, RunState::done);
  EXPECT_FALSE(status().seconds_left);
  set_process(ProcessState::stopped, false, "", "on request");
  EXPECT_EQ(status().state, RunState::stopped);
  EXPECT_EQ(status().reason, "on request");
  set_process(ProcessState::failed, false, "", "the loss of step 41 is not finite");
  EXPECT_EQ(status().state, RunState::failed);
  EXPECT_EQ(status().reason, "the loss of step 41 is not finite");
}

TEST_F(StatusOfRun, ARunThatRecordedNoProcessIsJudgedByItsSteps) {
  make_steps(100);
  EXPECT_EQ(status().state, RunState::done);
  make_steps(40);
  EXPECT_EQ(status().state, RunState::running);
  be_silent_for(1000);
  EXPECT_EQ(status().state, RunState::failed);
}

TEST_F(StatusOfRun, IsOneLineForEachRunAndOneObject) {
  make_steps(40);
  set_process(ProcessState::running, true);
  const std::vector<RunStatus> runs = status_of({run(), run()});
  const std::string line = run().string() + "  running  step 40 of 100  loss 3.25  16 tokens/s  30.0 s left\n";
  EXPECT_EQ(text_of(runs), line + line);
  const Json json = json_of(runs);
  EXPECT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][0]["state"], "running");
  EXPECT_EQ(json["runs"][0]["tokens_per_second"], 16);
  EXPECT_TRUE(json["runs"][0]["job"].is_null());
}

TEST(StatusOfFolders, ThatHoldNoRunAreRefusedByName) {
  const ScratchFolder folder;
  try {
    status_of({folder.path(), folder / "missing"});
    FAIL();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(folder.path().string() + " holds no run: neither run.json nor job.json is in it"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find((folder / "missing").string() + " is no folder"), std::string::npos) << text;
    EXPECT_EQ(error.code, ExitCode::bad_input);
  }
}

}  // namespace
}  // namespace terrace::launch
