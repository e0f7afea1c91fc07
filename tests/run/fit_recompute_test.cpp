// Tests that a run recomputes as few layers as its memory allows, by plan at first and then by what steps leave.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/plan/memory/fewest_recomputed.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using Numbers = std::vector<int64_t>;

// Notes the layers that each step recomputed.
class Notes : public train::Hook {
 public:
  Notes(std::vector<Numbers>& by_step, bool is_first) : by_step_(by_step), is_first_(is_first) {}
  void at_start(train::Trainer& trainer) override { note(trainer); }
  void after_step(train::Trainer& trainer, const train::StepReport&) override { note(trainer); }

 private:
  void note(train::Trainer& trainer) {
    if (is_first_) by_step_.push_back(trainer.recompute_layers().numbers);
  }

  std::vector<Numbers>& by_step_;
  bool is_first_;
};

class FitRecompute : public train::TinyRun {
 protected:
  config::Config config_of(const std::string& name, std::vector<std::string> keys) const {
    keys.insert(keys.end(), {"model.layers=6", "layout.pipeline=2", "layout.stage_layers=[3, 3]", "train.threads=1",
                             "train.micro_batch=1", "train.steps=8", "checkpoint.folder=" + (folder_ / name).string()});
    return tiny_config(keys);
  }

  // Runs with so many bytes left on each rank: before the model is built, and after the second, fourth and sixth step.
  std::vector<Numbers> fitted(const std::string& name, const std::vector<double>& first,
                              const std::vector<std::vector<double>>& later) const {
    std::mutex mutex;
    std::map<int64_t, size_t> calls;
    std::vector<Numbers> by_step;
    RunOptions options{.ranks = 2};
    options.memory_left = [&](const comm::World& world) {
      const std::lock_guard lock(mutex);
      const size_t call = calls[world.rank()]++;
      return (call == 0 ? first : later.at(call - 1)).at(static_cast<size_t>(world.rank()));
    };
    options.prepare = [&](train::Trainer& trainer) {
      trainer.add_hook(std::make_unique<Notes>(by_step, trainer.rank() == 0));
    };
    run_training(config_of(name, {"train.recompute=full", "layout.recompute_layers=fit"}), options);
    return by_step;
  }

  // The memory of a rank of each stage of which it may take as much as it needs with so many layers recomputed.
  std::vector<double> left_for(const Numbers& layers) const {
    const config::Config config = config_of("unused", {"train.recompute=full"});
    std::vector<double> bytes =
        plan::needed_by_stage(config, {.word = config::RecomputeLayers::Word::numbers, .numbers = layers}, 2, 2);
    for (double& one : bytes) one = (one + 1) / 0.9;
    return bytes;
  }

  // All states of the run's last checkpoint.
  std::map<std::string, at::Tensor> states_of(const std::string& name) const {
    train::Trainer trainer(tiny_config({"model.layers=6", "train.steps=8"}), {});
    trainer.resume(checkpoint::Reader(checkpoint::resolve((folder_ / name).string())));
    return snapshot(trainer);
  }
};

TEST_F(FitRecompute, BeginsAsPlannedAndFollowsWhatStepsLeave) {
  const std::vector<double> first = left_for({2, 1});
  const double tenth = 0.1 * first[0], other_tenth = 0.1 * first[1];
  const std::vector<double> none = left_for({0, 0}), planned = left_for({2, 1});
  // After step 2 as much is left as the first stage needs to recompute nothing, and after step 4 both are short of a
  // byte: the first step back is the last one.
  const std::vector<std::vector<double>> later = {{tenth + 0.9 * (none[0] - planned[0]) + 1, other_tenth},
                                                  {tenth - 1, other_tenth - 1}};
  const std::vector<Numbers> by_step = fitted("fitted", first, later);
  ASSERT_EQ(by_step.size(), 9U);
  EXPECT_EQ(by_step[0], (Numbers{2, 1}));
  EXPECT_EQ(by_step[1], (Numbers{2, 1}));
  EXPECT_EQ(by_step[2], (Numbers{0, 1}));
  EXPECT_EQ(by_step[3], (Numbers{0, 1}));
  EXPECT_EQ(by_step[4], (Numbers{1, 2}));
  EXPECT_EQ(by_step[8], (Numbers{1, 2}));
}

TEST_F(FitRecompute, ChangesNoBitAndRecomputesAllWhereMemoryIsUnknown) {
  EXPECT_EQ(fitted("fitted", left_for({2, 2}), {left_for({0, 0}), left_for({0, 0}), left_for({0, 0})}).back(),
            (Numbers{0, 0}));
  EXPECT_TRUE(fitted("unknown", {0, 0}, {}).back().empty());
  run_training(config_of("none", {}), {.ranks = 2});
  for (const char* name : {"fitted", "unknown"}) expect_equal(states_of(name), states_of("none"));
}

}  // namespace
}  // namespace terrace::run
