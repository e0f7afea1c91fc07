// A run whose data are staged trains to the same bits as one that reads them from their source.
#include "terrace/train/data_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "terrace/base/error.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Keys = std::vector<std::string>;

class StagedRuns : public train::TinyRun {
 protected:
  // 90 KB of tokens, which 16 slots of 4 KiB do not hold; the 16 windows of a step lie in as many of the 22 extents.
  void SetUp() override {
    train::TinyRun::SetUp();
    write_corpus(2200);
    std::filesystem::create_directories(disk_);
  }

  config::Config config_of(const std::string& name, Keys keys = {}) const {
    keys.insert(keys.begin(), {"train.threads=1", "train.global_batch=16", "train.micro_batch=1", "train.steps=30",
                               "train.evaluate_every=10", "train.evaluate_batches=2",
                               "checkpoint.folder=" + (folder_ / name).string()});
    return tiny_config(keys);
  }
  Keys staged(const Keys& more = {}) const {
    Keys keys = {"data.stage=" + disk_.string()};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  RunResult start(const std::string& name, int64_t ranks, const Keys& keys = {}, const RunOptions& more = {}) {
    RunOptions options = more;
    options.ranks = ranks;
    options.measure_peak = [](const at::Device&, at::ScalarType) { return train::Peak{1e9, "a peak for the test"}; };
    return run_training(config_of(name, keys), options);
  }

  std::map<std::string, at::Tensor> read(const std::filesystem::path& checkpoint) const {
    train::Trainer trainer(config_of("reader"), {});
    trainer.resume(checkpoint::Reader(checkpoint));
    return snapshot(trainer);
  }

  // Compares losses, evaluations and the last checkpoint.
  void expect_same_run(const RunResult& ours, const std::string& name, const RunResult& theirs,
                       const std::string& other) {
    expect_equal(read(ours.checkpoint), read(theirs.checkpoint));
    const observe::RunMetrics a = observe::read_metrics(folder_ / name), b = observe::read_metrics(folder_ / other);
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (const auto& [step, metrics] : a.steps) EXPECT_EQ(metrics.loss, b.steps.at(step).loss) << step;
    ASSERT_EQ(a.evaluations.size(), b.evaluations.size());
    for (const auto& [step, metrics] : a.evaluations) {
      EXPECT_EQ(metrics.validation_loss, b.evaluations.at(step).validation_loss) << step;
    }
  }

  observe::StageMetrics last_stage(const std::string& name) const {
    return observe::read_metrics(folder_ / name).steps.rbegin()->second.stage.value();
  }

  std::filesystem::path disk_ = folder_ / "disk";
};

// Runs are on one node, on nodes of one and of two ranks, and with ranks of a node that read nothing or the same.
TEST_F(StagedRuns, TrainTheSameBitsOnNodesOfAnySize) {
  struct Case {
    int64_t ranks;
    Keys keys, of_nodes;
  };
  const std::vector<Case> cases = {{1, {}, {}},
                                   {2, {}, {"layout.ranks_per_node=1"}},
                                   {4, {"layout.sharding=zero3"}, {"layout.ranks_per_node=2"}},
                                   {4, {"layout.pipeline=2"}, {"layout.ranks_per_node=2"}},
                                   {2, {"layout.tensor=2"}, {}}};
  int number = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(testing::Message() << one.ranks << " ranks, case " << number);
    const std::string name = "run" + std::to_string(number++);
    const RunResult plain = start(name, one.ranks, one.keys);
    for (const char* buffer : {"0", "65536"}) {
      Keys keys = staged({std::string("data.stage_bytes=") + buffer});
      keys.insert(keys.end(), one.keys.begin(), one.keys.end());
      keys.insert(keys.end(), one.of_nodes.begin(), one.of_nodes.end());
      const std::string own = name + "_" + buffer;
      expect_same_run(start(own, one.ranks, keys), own, plain, name);
      const observe::StageMetrics done = last_stage(own);
      EXPECT_GT(done.copied_bytes, 0);
      EXPECT_GT(done.staged_bytes, 0);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(disk_));
}

// Windows of 17 tokens of 2 bytes: 16 in each of 30 steps, and 32 in each of the evaluations before the last step.
TEST_F(StagedRuns, EachByteIsReadFromTheDiskOrTheSource) {
  start("run", 2, staged());
  const observe::StageMetrics done = last_stage("run");
  EXPECT_EQ(done.staged_bytes + done.source_bytes, (30 * 16 + 2 * 32) * 34);
  EXPECT_LE(done.copied_bytes, static_cast<int64_t>(std::filesystem::file_size(folder_ / "corpus.bin")));
  EXPECT_THAT(observe::read_metrics(folder_ / "run").names.figures, Each(Not(HasSubstr("stage"))));
}

// With an order of nodes the losses do not depend on staging or on the layout either, and a node takes later shares
// from the others.
TEST_F(StagedRuns, NodesPassSharesOn) {
  const Keys order = {"data.order=node", "data.shares=2", "train.micro_batch=4", "train.steps=200",
                      "train.evaluate_every=0"};
  const RunResult plain = start("plain", 1, order);
  for (const int64_t ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const std::string name = "of " + std::to_string(ranks);
    Keys keys = staged({"layout.ranks_per_node=" + std::to_string(ranks / 2)});
    keys.insert(keys.end(), order.begin(), order.end());
    if (ranks == 4) keys.push_back("layout.sharding=zero3");
    const RunResult ours = start(name, ranks, keys);
    const observe::RunMetrics a = observe::read_metrics(folder_ / name), b = observe::read_metrics(folder_ / "plain");
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (const auto& [step, metrics] : a.steps) EXPECT_NEAR(metrics.loss, b.steps.at(step).loss, 1e-4) << step;
    EXPECT_GT(last_stage(name).received_bytes, 0);
  }
}

TEST_F(StagedRuns, ContinueToTheSameBits) {
  const RunResult whole = start("whole", 2);
  RunOptions options;
  options.stop_after = 13;
  start("parts", 2, staged({"layout.ranks_per_node=1"}), options);
  RunOptions resume;
  resume.resume = "auto";
  // The rest is read from another disk, or from the source.
  const RunResult ours = start("parts", 2, {"data.stage=" + (folder_ / "other disk").string()}, resume);
  expect_same_run(ours, "parts", whole, "whole");
}

TEST_F(StagedRuns, FoldersThatCannotBeUsedAreRefusedBeforeTheStart) {
  EXPECT_THAT(file_problems(config_of("run", {"data.stage=/dev/null/x"}), true),
              ElementsAre(HasSubstr("data.stage = \"/dev/null/x\": /dev/null is not a writable folder")));
  EXPECT_THAT(file_problems(config_of("run", {"data.stage=/mnt/$TERRACE_NO_SUCH_NAME"}), true),
              ElementsAre(AllOf(HasSubstr("data.stage = "), HasSubstr("TERRACE_NO_SUCH_NAME"), HasSubstr("set it"))));
  ::setenv("TERRACE_TEST_DISK", disk_.c_str(), 1);
  EXPECT_EQ(file_problems(config_of("run", {"data.stage=$TERRACE_TEST_DISK/mine"}), true), std::vector<std::string>());
  start("run", 1, {"data.stage=$TERRACE_TEST_DISK/mine"});
  EXPECT_TRUE(std::filesystem::is_directory(disk_ / "mine"));
  ::unsetenv("TERRACE_TEST_DISK");
}

TEST_F(StagedRuns, KeysAreReadAndRefused) {
  EXPECT_EQ(data::text_of(config_of("run", staged({"data.stage_bytes=\"400 GB\""}))).stage.bytes, 400'000'000'000);
  const auto refusal = [&](const Keys& keys) -> std::string {
    try {
      config_of("run", keys);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(staged({"data.stage_bytes=100"})), HasSubstr("is less than 65536, the least; use 65536 or 0"));
  EXPECT_THAT(refusal(staged({"data.stage_bytes=\"4 apples\""})), HasSubstr("data.stage_bytes"));
  EXPECT_THAT(refusal({"data.order=node"}),
              HasSubstr("data.order = \"node\" needs data.shares, usually the number of nodes; train.global_batch = 16 "
                        "allows 1, 2, 4, 8 or 16"));
  EXPECT_THAT(refusal({"data.order=node", "data.shares=3"}),
              HasSubstr("data.shares = 3 does not divide train.global_batch = 16; use 1, 2, 4, 8 or 16"));
  EXPECT_THAT(refusal({"data.order=node", "data.shares=2", "train.ramp_start=8", "train.ramp_increment=8",
                       "train.ramp_samples=16"}),
              HasSubstr("train.ramp_start = 8 makes them smaller at first; use 0, or data.order = \"global\""));
  EXPECT_THAT(refusal({"data.order=node", "data.shares=2", "data.phases=[{from_step = 9, global_batch = 8}]"}),
              HasSubstr("the phase from step 9 has train.global_batch = 8 in place of 16"));
  EXPECT_THAT(refusal({"data.order=node", "data.shares=2", "data.phases=[{from_step = 9, train = [\"other\"]}]"}),
              HasSubstr("has the same corpora in the whole run, and data.phases[1] has others"));
  EXPECT_THAT(config_of("run", {"data.shares=2"}).idle,
              ElementsAre(HasSubstr("without data.order = \"node\"; give that, or remove it")));
  EXPECT_THAT(config_of("run", {"data.stage_bytes=100000"}).idle,
              ElementsAre(HasSubstr("without data.stage; name a folder there, or remove it")));
}

}  // namespace
}  // namespace terrace::run
