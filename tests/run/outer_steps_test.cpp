// Tests runs of copies that make steps by themselves: resumed to the bit between two meetings and at one, begun at the
// common weights at another layout, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;
using Keys = std::vector<std::string>;
using Tensors = std::map<std::string, at::Tensor>;

// Takes a copy of what each rank would save at the end of a run.
class TakeStates : public train::Hook {
 public:
  explicit TakeStates(Tensors& states) : states_(states) {}
  void after_step(train::Trainer&, const train::StepReport&) override {}
  void at_end(train::Trainer& trainer) override {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    for (const checkpoint::Collection& collection : trainer.state().collections) {
      for (const checkpoint::NamedTensor& named : collection.tensors) {
        states_[std::to_string(trainer.rank()) + "/" + collection.name + "/" + named.name] = named.tensor.clone();
      }
    }
  }

 private:
  Tensors& states_;
};

class OuterRuns : public train::TinyRun {
 protected:
  config::Config config_of(const std::string& name, Keys keys) const {
    keys.insert(keys.end(), {"train.threads=1", "train.steps=8", "train.global_batch=8", "train.micro_batch=1",
                             "checkpoint.folder=" + (folder_ / name).string()});
    return tiny_config(keys);
  }

  // The states of all ranks after a run that stops after the step and is continued.
  Tensors states(const config::Config& config, int64_t ranks, int64_t stop_after = 0) const {
    Tensors states;
    RunOptions options{.ranks = ranks, .resume = "auto"};
    if (stop_after > 0) {
      options.stop_after = stop_after;
      run_training(config, options);
      options.stop_after = 0;
    }
    options.prepare = [&](train::Trainer& trainer) { trainer.add_hook(std::make_unique<TakeStates>(states)); };
    run_training(config, options);
    return states;
  }
};

TEST_F(OuterRuns, ContinueToTheBit) {
  struct Case {
    int64_t ranks;
    Keys keys;
  };
  const std::vector<Case> cases = {{2, {"layout.outer_every=4"}},
                                   {4,
                                    {"layout.outer_every=4", "layout.sharding=hybrid", "layout.shard_group=2",
                                     "layout.outer_type=int8", "train.precision=bf16"}},
                                   {4, {"layout.outer_every=2", "layout.pipeline=2"}}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = "case" + std::to_string(i);
    const Tensors whole = states(config_of(name, cases[i].keys), cases[i].ranks);
    for (const int64_t stop_after : {3, 4}) {
      const std::string stopped = name + "_" + std::to_string(stop_after);
      expect_equal(states(config_of(stopped, cases[i].keys), cases[i].ranks, stop_after), whole);
    }
  }
}

// The copies of two ranks meet after step 4. A checkpoint of step 6 has the weights of that meeting.
TEST_F(OuterRuns, SaveTheWeightsThatAllCopiesHaveInCommon) {
  const Keys keys = {"layout.outer_every=4"};
  run_training(config_of("four", keys), {.ranks = 2, .stop_after = 4});
  run_training(config_of("six", keys), {.ranks = 2, .stop_after = 6});
  const auto weights_of = [&](const std::string& name) {
    train::Trainer trainer(config_of("unused", {}), {});
    trainer.load_weights(checkpoint::Reader(checkpoint::resolve((folder_ / name).string())));
    return snapshot(trainer);
  };
  expect_equal(weights_of("six"), weights_of("four"));
  // Another number of copies goes on from there.
  const RunResult result = run_training(config_of("six", keys), {.ranks = 4, .resume = "auto"});
  EXPECT_TRUE(result.finished);
}

// The first steps of a run may sum gradients. The loss of the step after them does not depend on what follows it.
TEST_F(OuterRuns, CopiesMayBeginBehindStepsThatSumGradients) {
  const auto loss_of_step_five = [&](const std::string& name) {
    return observe::read_metrics(folder_ / name).steps.at(5).loss;
  };
  run_training(config_of("sums", {"layout.sharding=ddp"}), {.ranks = 2});
  run_training(config_of("copies", {"layout.sharding=ddp"}), {.ranks = 2, .stop_after = 4});
  const RunResult result = run_training(config_of("copies", {"layout.outer_every=4"}), {.ranks = 2, .resume = "auto"});
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(loss_of_step_five("copies"), loss_of_step_five("sums"));
}

TEST_F(OuterRuns, RefuseWhatSumsOverAllCopiesOrEndsBetweenMeetings) {
  const auto refusal = [&](const Keys& keys) -> std::string {
    try {
      config_of("refused", keys);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string several = refusal(
      {"layout.outer_every=3", "train.evaluate_every=4", "layout.deterministic=true", "train.noise_scale_every=2"});
  EXPECT_THAT(several, HasSubstr("layout.outer_every = 3 does not divide train.steps = 8"));
  EXPECT_THAT(several, HasSubstr("use steps of 6 or 9"));
  EXPECT_THAT(several, HasSubstr("use evaluate_every = 3 or 6"));
  EXPECT_THAT(several, HasSubstr("outer_every = 3 and deterministic = true"));
  EXPECT_THAT(several, HasSubstr("train.noise_scale_every = 2 compares gradients"));
  const auto idle = idle_keys_of(config_of("idle", {"layout.outer_every=4", "layout.sharding=zero1"}), 2, 2);
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_THAT(idle.front(), HasSubstr("on 2 data-parallel ranks, which hold one copy"));
}

TEST_F(OuterRuns, WarnOfFewUpdatesWhereThereAreSeveralCopies) {
  const auto log_of = [&](const Keys& keys, int64_t ranks) {
    testing::internal::CaptureStdout();
    warn_of_few_outer_updates(config_of("warned", keys), ranks, ranks);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(log_of({"layout.outer_every=4"}, 2), HasSubstr("makes 2 outer updates in train.steps = 8"));
  EXPECT_EQ(log_of({"layout.outer_every=4"}, 1), "");
  EXPECT_EQ(log_of({"layout.outer_every=4", "layout.sharding=zero1"}, 2), "");
  EXPECT_EQ(log_of({"layout.outer_every=4", "optimizer.outer_momentum=0.0"}, 2), "");
}

}  // namespace
}  // namespace terrace::run
