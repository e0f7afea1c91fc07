// Tests saving during a run: in the background or not, on a full disk, and at a time limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "terrace/base/error.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/run_training.h"
#include "tests/file_size_limit.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;

class Saving : public train::TinyRun {
 protected:
  static RunResult start(const config::Config& config, const std::string& resume = "", int64_t stop_after = 0) {
    const auto peak = [](const at::Device&, at::ScalarType) { return train::Peak{1e9, "a peak for the test"}; };
    return run_training(config, {.resume = resume, .measure_peak = peak, .stop_after = stop_after});
  }

  config::Config saving(std::vector<std::string> overrides) const {
    overrides.insert(overrides.end(), {"train.threads=1", "checkpoint.keep=0"});
    return tiny_config(overrides);
  }

  std::vector<int64_t> saved_steps(const std::string& name = "run") const {
    std::vector<int64_t> steps;
    for (const auto& path : checkpoint::list(folder_ / name)) steps.push_back(checkpoint::step_of(path).value());
    return steps;
  }

  std::map<std::string, at::Tensor> weights_at(const std::string& name, int64_t step) const {
    train::Trainer trainer(tiny_config(), {});
    trainer.resume(checkpoint::Reader(folder_ / name / checkpoint::step_name(step)));
    return snapshot(trainer);
  }
};

// Limits the size of files between two steps. Waits for the save that is under way, so that the test knows which saves
// the limit affects.
class FullDisk : public train::Hook {
 public:
  FullDisk(train::Hook& save, int64_t first, int64_t last) : save_(save), first_(first), last_(last) {}

  void after_step(train::Trainer&, const train::StepReport& report) override {
    save_.finish_background_work();
    if (report.metrics.step == first_) limit_.emplace(1000);
    if (report.metrics.step == last_ + 1) limit_.reset();
  }

 private:
  train::Hook& save_;
  int64_t first_, last_;
  std::optional<FileSizeLimit> limit_;
};

// Trains to the end with a disk that is full between two steps.
void train_with_full_disk(train::Trainer& trainer, int64_t first, int64_t last) {
  std::filesystem::create_directories(trainer.config().checkpoint.folder);
  const auto metrics = std::make_shared<observe::MetricsWriter>(trainer.config().checkpoint.folder, 0);
  auto save = make_save_hook(trainer, metrics);
  trainer.add_hook(std::make_unique<FullDisk>(*save, first, last));
  trainer.add_hook(make_metrics_hook(metrics));
  trainer.add_hook(std::move(save));
  trainer.run();
}

TEST_F(Saving, BackgroundSavesGiveTheSameCheckpoints) {
  start(saving({"checkpoint.every=2", "checkpoint.background=false"}));
  const std::string background = "checkpoint.folder=" + (folder_ / "background").string();
  const std::string staged = "checkpoint.folder=" + (folder_ / "staged").string();
  start(saving({"checkpoint.every=2", background}));
  start(saving({"checkpoint.every=2", staged, "checkpoint.staging=" + (folder_ / "fast").string()}));
  const std::vector<int64_t> steps = {2, 4, 6, 8, 10};
  for (const char* name : {"run", "background", "staged"}) {
    ASSERT_EQ(saved_steps(name), steps) << name;
    for (const int64_t step : steps) expect_equal(weights_at(name, step), weights_at("run", step));
  }
}

TEST_F(Saving, AFullDiskDoesNotEndTheRun) {
  for (const char* background : {"false", "true"}) {
    const std::string name = std::string("background_") + background;
    train::Trainer trainer(saving({"checkpoint.every=2", "checkpoint.folder=" + (folder_ / name).string(),
                                   std::string("checkpoint.background=") + background}),
                           {});
    train_with_full_disk(trainer, 3, 7);
    EXPECT_EQ(saved_steps(name), (std::vector<int64_t>{2, 8, 10}));
    EXPECT_EQ(observe::read_metrics(folder_ / name).steps.size(), 10u);
    weights_at(name, 2);
    expect_equal(weights_at(name, 10), snapshot(trainer));
  }
}

TEST_F(Saving, ARunWhoseLastCheckpointCannotBeSavedFails) {
  train::Trainer trainer(saving({"checkpoint.every=4"}), {});
  try {
    train_with_full_disk(trainer, 7, 100);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::failure);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("step_00000010 was not saved"), HasSubstr("File too large"),
                                             HasSubstr("Earlier checkpoints are untouched")));
  }
  EXPECT_EQ(saved_steps(), (std::vector<int64_t>{4}));
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".step_")) << entry.path();
  }
}

TEST_F(Saving, ATimeLimitStopsAfterTheStepThatReachesIt) {
  const RunResult first = start(saving({"train.time_limit=0.000001"}));
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.step, 1);
  EXPECT_THAT(first.stop_reason, HasSubstr("by train.time_limit = 1e-06"));
  const RunResult second = start(saving({"train.time_limit=1h"}), "auto");
  EXPECT_TRUE(second.finished);
  EXPECT_EQ(second.stop_reason, "");
  train::Trainer whole(tiny_config(), {});
  take_steps(whole, 10);
  expect_equal(weights_at("run", 10), snapshot(whole));
}

TEST_F(Saving, AStoppedRunIsEvaluatedAndContinuesAsUninterrupted) {
  const std::vector<std::string> settings = {"train.evaluate_every=2", "data.validation_share=0.2"};
  const RunResult first = start(saving(settings), "", 4);
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.step, 4);
  EXPECT_EQ(first.stop_reason, "by --stop-after 4");
  EXPECT_TRUE(observe::read_metrics(folder_ / "run").evaluations.contains(4));
  EXPECT_EQ(start(saving(settings), "auto", 4).step, 4);
  try {
    start(saving(settings), "auto", 3);
    FAIL() << "stops after a step that it is past";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--stop-after 3 is before step 4, after which the run continues; name a later "
                                        "step, up to train.steps = 10"));
  }
  EXPECT_TRUE(start(saving(settings), "auto").finished);
  train::Trainer whole(saving(settings), {});
  take_steps(whole, 10);
  train::Trainer continued(saving(settings), {});
  continued.resume(checkpoint::Reader(folder_ / "run" / checkpoint::step_name(10)));
  expect_equal(snapshot(continued), snapshot(whole));
}

TEST_F(Saving, AStepThatCannotContinueNamesTheCheckpointThatWasBeingWritten) {
  // The first step makes the weights so large that the second one has no finite loss.
  const config::Config config =
      saving({"checkpoint.every=1", "optimizer.learning_rate=1e30", "optimizer.warmup_steps=0"});
  std::string message;
  try {
    start(config);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  ASSERT_FALSE(saved_steps().empty()) << message;
  EXPECT_THAT(message, HasSubstr(checkpoint::step_name(saved_steps().back())));
}

TEST_F(Saving, AnImpossibleStagingFolderIsRefusedBeforeTheStart) {
  const config::Config config = saving({"checkpoint.every=1", "checkpoint.staging=/dev/null/fast"});
  try {
    start(config);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("checkpoint.staging = \"/dev/null/fast\": /dev/null is not a writable folder"));
  }
}

}  // namespace
}  // namespace terrace::run
