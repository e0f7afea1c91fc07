// A run that ends without a word continues from the copies of its states in memory, with the bits of one that did not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

// Ends the run as a failure does, on every rank, when the copies that are under way are whole.
class FailAfter : public train::Hook {
 public:
  FailAfter(int64_t step, std::function<bool()> is_copied) : step_(step), is_copied_(std::move(is_copied)) {}
  void after_step(train::Trainer&, const train::StepReport& report) override {
    if (report.metrics.step != step_) return;
    for (int i = 0; i < 3000 && !is_copied_(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    throw std::runtime_error("the test ends the run");
  }

 private:
  int64_t step_;
  std::function<bool()> is_copied_;
};

class MemoryCopiesOfARun : public train::TinyRun {
 protected:
  // Two nodes of one rank, which copy their states every two steps.
  config::Config config_in(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> keys = {"train.threads=1",
                                     "checkpoint.memory_every=2",
                                     "checkpoint.memory_folder=" + (folder_ / "memory").string(),
                                     "checkpoint.folder=" + (folder_ / run).string(),
                                     "layout.ranks_per_node=1",
                                     "layout.sharding=zero1"};
    keys.insert(keys.end(), more.begin(), more.end());
    return tiny_config(keys);
  }

  // Fails after the step `fails_after`, if it is given, when both nodes have the copy of the step before.
  RunResult train_to(const config::Config& config, const std::string& resume, int64_t fails_after = 0,
                     int64_t ranks = 2) const {
    RunOptions options{.ranks = ranks, .resume = resume};
    options.measure_peak = [](const at::Device&, at::ScalarType) { return train::Peak{1e9, "a peak for the test"}; };
    if (fails_after > 0) {
      const std::string run = fs::path(config.checkpoint.folder).filename();
      const auto is_copied = [=, this] {
        return has_copy(run, 0, fails_after - 1) && has_copy(run, 1, fails_after - 1);
      };
      options.prepare = [=](train::Trainer& trainer) {
        trainer.add_hook(std::make_unique<FailAfter>(fails_after, is_copied));
      };
    }
    return run_training(config, options);
  }

  std::map<std::string, at::Tensor> weights_at_end(const std::string& run) const {
    train::Trainer trainer(tiny_config(), {});
    trainer.resume(checkpoint::Reader(folder_ / run / checkpoint::step_name(10)));
    return snapshot(trainer);
  }

  fs::path node(const std::string& run, int64_t number) const {
    return memory_of(folder_ / "memory", folder_ / run) / (host_name() + "@" + std::to_string(number));
  }

  bool has_copy(const std::string& run, int64_t number, int64_t step) const {
    for (const auto& start : fs::directory_iterator(node(run, number))) {
      if (fs::exists(start.path() / checkpoint::step_name(step))) return true;
    }
    return false;
  }

  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    for (const auto& [step, metrics] : observe::read_metrics(folder_ / run).steps) all.push_back(metrics.loss);
    return all;
  }
};

TEST_F(MemoryCopiesOfARun, AreWhatItContinuesFromAfterTheLossOfANode) {
  train_to(config_in("whole"), "");
  EXPECT_FALSE(fs::exists(node("whole", 0)));  // they were removed at the end
  for (const int64_t lost : {0, 1}) {
    const std::string run = "lost" + std::to_string(lost);
    EXPECT_THROW(train_to(config_in(run), "", 7), std::runtime_error);
    fs::remove_all(node(run, lost));
    EXPECT_TRUE(checkpoint::list(folder_ / run).empty());
    EXPECT_TRUE(train_to(config_in(run), "auto").finished);
    // Step 7 was lost, and 6 became a checkpoint.
    EXPECT_EQ(checkpoint::list(folder_ / run).front().filename(), checkpoint::step_name(6));
    expect_equal(weights_at_end(run), weights_at_end("whole"));
    EXPECT_EQ(losses(run), losses("whole"));
  }
}

TEST_F(MemoryCopiesOfARun, ContinueOnFewerRanks) {
  EXPECT_THROW(train_to(config_in("run"), "", 7), std::runtime_error);
  fs::remove_all(node("run", 1));
  EXPECT_TRUE(train_to(config_in("run", {"layout.ranks_per_node=0"}), "auto", 0, 1).finished);
  EXPECT_EQ(checkpoint::list(folder_ / "run").front().filename(), checkpoint::step_name(6));
  EXPECT_EQ(losses("run").size(), 10u);
}

TEST_F(MemoryCopiesOfARun, DoNotReplaceANewerCheckpoint) {
  EXPECT_THROW(train_to(config_in("run", {"checkpoint.every=7", "checkpoint.background=false"}), "", 7),
               std::runtime_error);
  train_to(config_in("run"), "auto");
  EXPECT_EQ(checkpoint::list(folder_ / "run").front().filename(), checkpoint::step_name(7));
}

TEST_F(MemoryCopiesOfARun, OfARunThatWasStoppedAreRemoved) {
  RunOptions options{.ranks = 2, .stop_after = 5};
  options.measure_peak = [](const at::Device&, at::ScalarType) { return train::Peak{1e9, "a peak for the test"}; };
  EXPECT_EQ(run_training(config_in("run"), options).step, 5);
  EXPECT_FALSE(fs::exists(node("run", 0)));
  EXPECT_FALSE(fs::exists(node("run", 1)));
}

}  // namespace
}  // namespace terrace::run
