// Tests whole runs on several ranks: equal results at every layout, resuming at another layout, a stop on one rank.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/stop_request.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

struct RankLayout {
  int64_t ranks;
  Keys keys;
};

const std::vector<RankLayout> rank_layouts = {
    {1, {}},
    {2, {"layout.sharding=zero1"}},
    {2, {"layout.sharding=zero3"}},
    {3, {"layout.sharding=zero2"}},
    {4, {"layout.sharding=hybrid", "layout.shard_group=2"}},
    {4, {"layout.sharding=three_level", "layout.ranks_per_node=4"}},
    {2, {"layout.tensor=2"}},
    {2, {"layout.pipeline=2", "layout.schedule=zb-h1"}},
    {2, {"layout.pipeline=2", "layout.stage_layers=[2, 0]"}},
    {8, {"layout.pipeline=2", "layout.tensor=2", "layout.sharding=zero3", "layout.schedule=zb-v", "layout.chunks=2"}},
    {4, {"layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero1"}},
};

const std::vector<RankLayout> quantized_layouts = {
    {2, {"layout.sharding=zero3", "layout.gather_type=int8", "layout.reduce_type=int4"}},
    {4,
     {"layout.sharding=three_level", "layout.ranks_per_node=2", "layout.gather_type=int8", "layout.reduce_type=fp8",
      "layout.update_type=int8"}},
    {4, {"layout.tensor=2", "layout.sharding=zero1", "layout.reduce_type=int4", "layout.update_type=int8"}},
};

class Ranks : public train::TinyRun {
 protected:
  config::Config config_of(const std::string& name, const RankLayout& layout, Keys keys = {}) const {
    keys.insert(keys.end(), layout.keys.begin(), layout.keys.end());
    keys.insert(keys.end(), {"train.threads=1", "checkpoint.keep=0", "train.global_batch=12", "train.micro_batch=1",
                             "checkpoint.folder=" + (folder_ / name).string()});
    return tiny_config(keys);
  }

  RunResult start(const std::string& name, const RankLayout& layout, const Keys& keys = {},
                  const std::string& resume = "") {
    return run_training(
        config_of(name, layout, keys),
        {.ranks = layout.ranks, .resume = resume, .measure_peak = [](const at::Device&, at::ScalarType) {
           return train::Peak{1e9, "a peak for the test"};
         }});
  }

  // The tensors that a checkpoint of a model with these keys holds, read by one rank.
  std::map<std::string, at::Tensor> read(const std::filesystem::path& checkpoint, const Keys& model = {}) const {
    train::Trainer trainer(config_of("reader", {1, model}), {});
    trainer.resume(checkpoint::Reader(checkpoint));
    return snapshot(trainer);
  }

  std::vector<double> losses(const std::string& name) const {
    std::vector<double> list;
    for (const auto& [step, metrics] : observe::read_metrics(folder_ / name).steps) list.push_back(metrics.loss);
    return list;
  }
};

// Layouts sum in different orders, so results differ by rounding, which the steps of Adam enlarge.
void expect_close(const std::vector<double>& ours, const std::vector<double>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-3) << "step " << i + 1;
}

TEST_F(Ranks, LearnTheSameAtEveryLayout) {
  start("one", {1, {}});
  for (size_t i = 1; i < rank_layouts.size(); ++i) {
    const std::string name = "layout" + std::to_string(i);
    const RunResult result = start(name, rank_layouts[i]);
    EXPECT_TRUE(result.finished);
    expect_close(losses(name), losses("one"));
  }
}

// Quantized movements leave the fp32 weights of the optimizer as they are, and these are saved.
TEST_F(Ranks, SavedAtOneLayoutAndReadAtEveryOther) {
  std::vector<RankLayout> layouts = rank_layouts;
  layouts.insert(layouts.end(), quantized_layouts.begin(), quantized_layouts.end());
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto saved = start("from" + std::to_string(i), layouts[i], {"train.steps=2"}).checkpoint;
    const auto expected = read(saved);
    for (const RankLayout& other : layouts) {
      SCOPED_TRACE(fmt::format("{} ranks to {}", layouts[i].ranks, other.ranks));
      // The other layout loads and saves the checkpoint without a step in between.
      const config::Config config = config_of("to", other, {"train.steps=2"});
      std::filesystem::path again;
      comm::run_threads(other.ranks, {}, [&](comm::World& world) {
        train::Trainer trainer(config, {}, {}, &world);
        trainer.resume(checkpoint::Reader(saved));
        const auto path = checkpoint::save(folder_ / "again", trainer.state(), {}, trainer.saving_group());
        if (world.rank() == 0) again = path;
      });
      expect_equal(read(again), expected);
    }
  }
}

TEST_F(Ranks, ContinueBitForBitAtTheSameLayout) {
  for (const RankLayout& layout : {rank_layouts[2], rank_layouts[4], quantized_layouts[0], quantized_layouts[1]}) {
    const std::string name = fmt::format("{} {} ", layout.ranks, layout.keys.back());
    start(name + "whole", layout, {"train.steps=6", "checkpoint.every=3"});
    start(name + "half", layout, {"train.steps=3", "optimizer.decay_steps=6"});
    start(name + "half", layout, {"train.steps=6", "optimizer.decay_steps=6"}, "auto");
    expect_equal(read(folder_ / (name + "half") / checkpoint::step_name(6)),
                 read(folder_ / (name + "whole") / checkpoint::step_name(6)));
  }
}

const Keys experts = {"model.experts=4", "model.router=sigmoid", "model.router_bias=true",
                      "model.router_bias_rate=0.05", "model.balance_loss=0.01"};
const std::vector<RankLayout> expert_layouts = {
    {1, {}},
    {2, {"layout.experts=2", "layout.sharding=zero3"}},
    {4, {"layout.experts=4", "layout.sharding=zero1"}},
    {4, {"layout.experts=2", "layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero2"}},
    {4, {"layout.experts=2", "layout.pipeline=2"}},
};

RankLayout with_experts(RankLayout layout) {
  layout.keys.insert(layout.keys.end(), experts.begin(), experts.end());
  return layout;
}

TEST_F(Ranks, ExpertsSavedOverSomeRanksAreReadOverOthers) {
  for (size_t i = 0; i < expert_layouts.size(); ++i) {
    const auto saved = start("from" + std::to_string(i), with_experts(expert_layouts[i]), {"train.steps=2"}).checkpoint;
    const auto expected = read(saved, experts);
    for (const RankLayout& other : expert_layouts) {
      SCOPED_TRACE(fmt::format("layout {} to {} ranks", i, other.ranks));
      const config::Config config = config_of("to", with_experts(other), {"train.steps=2"});
      std::filesystem::path again;
      comm::run_threads(other.ranks, {}, [&](comm::World& world) {
        train::Trainer trainer(config, {}, {}, &world);
        trainer.resume(checkpoint::Reader(saved));
        const auto path = checkpoint::save(folder_ / "again", trainer.state(), {}, trainer.saving_group());
        if (world.rank() == 0) again = path;
      });
      expect_equal(read(again, experts), expected);
    }
  }
}

TEST_F(Ranks, ExpertsLearnTheSameAndContinueBitForBit) {
  for (size_t i = 0; i < expert_layouts.size(); ++i) {
    const RankLayout layout = with_experts(expert_layouts[i]);
    const std::string whole = fmt::format("whole{}", i), half = fmt::format("half{}", i);
    start(whole, layout, {"train.steps=6", "checkpoint.every=3", "train.evaluate_every=6"});
    start(half, layout, {"train.steps=3", "optimizer.decay_steps=6"});
    start(half, layout, {"train.steps=6", "optimizer.decay_steps=6"}, "auto");
    expect_equal(read(folder_ / half / checkpoint::step_name(6), experts),
                 read(folder_ / whole / checkpoint::step_name(6), experts));
    expect_close(losses(whole), losses("whole0"));
    const double held_out = observe::read_metrics(folder_ / whole).evaluations.at(6).validation_loss;
    EXPECT_NEAR(held_out, observe::read_metrics(folder_ / "whole0").evaluations.at(6).validation_loss, 1e-3);
  }
}

// With three seeds the mean of the last losses differs from the plain one by less than the plain ones differ from each
// other.
TEST_F(Ranks, LearnAsMuchWithQuantizedMovements) {
  const auto last_losses = [&](const RankLayout& layout) {
    std::vector<double> means;
    for (const std::string seed : {"1", "2", "3"}) {
      const std::string name = fmt::format("{} {} {}", layout.ranks, layout.keys.size(), seed);
      start(name, layout, {"train.steps=60", "train.seed=" + seed});
      const std::vector<double> all = losses(name);
      means.push_back(std::accumulate(all.end() - 10, all.end(), 0.0) / 10);
    }
    return means;
  };
  const auto mean = [](const std::vector<double>& list) { return std::accumulate(list.begin(), list.end(), 0.0) / 3; };
  const std::vector<double> plain = last_losses(rank_layouts[2]);
  const auto [least, most] = std::ranges::minmax(plain);
  for (const RankLayout& layout : quantized_layouts) {
    const std::vector<double> quantized = last_losses(layout);
    EXPECT_LT(std::abs(mean(quantized) - mean(plain)), most - least) << fmt::format("{} and {}", plain, quantized);
  }
}

TEST_F(Ranks, ContinueAtAnotherLayoutOnTheSameData) {
  start("whole", rank_layouts[1], {"train.steps=8"});
  start("changed", rank_layouts[1], {"train.steps=4", "optimizer.decay_steps=8"});
  start("changed", rank_layouts[3], {"train.steps=8", "optimizer.decay_steps=8"}, "auto");
  expect_close(losses("changed"), losses("whole"));
}

TEST_F(Ranks, EvaluateToTheLossOfOneRank) {
  const RankLayout& zero3 = rank_layouts[2];
  const auto saved = start("run", {1, {}}, {"train.steps=2"}).checkpoint;
  train::Trainer one(config_of("one", {1, {}}), {});
  one.resume(checkpoint::Reader(saved));
  const double expected = one.evaluate(0).value().all.loss;
  comm::run_threads(zero3.ranks, {}, [&](comm::World& world) {
    train::Trainer trainer(config_of("two", zero3), {}, {}, &world);
    trainer.resume(checkpoint::Reader(saved));
    EXPECT_NEAR(trainer.evaluate(0).value().all.loss, expected, 1e-6 * expected);
  });
}

// Requests a stop on one rank alone, as its launcher might.
class StopOne : public train::Hook {
 public:
  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (trainer.rank() == 1 && report.metrics.step == 3) trainer.stop("by rank 1");
  }
};

TEST_F(Ranks, OneRankStopsAll) {
  comm::run_threads(2, {}, [&](comm::World& world) {
    train::Trainer trainer(config_of("run", rank_layouts[1]), {}, {}, &world);
    trainer.add_hook(std::make_unique<StopOne>());
    trainer.run();
    EXPECT_EQ(trainer.steps_done(), 3);
  });
}

// Makes the first rank's part of the weights not finite: half of each tensor, or the tensors of the first stage.
TEST_F(Ranks, EveryRankNamesAGradientThatIsNotFinite) {
  for (const RankLayout& layout : {rank_layouts[2], rank_layouts[7]}) {
    SCOPED_TRACE(layout.keys.front());
    comm::run_threads(2, {}, [&](comm::World& world) {
      train::Trainer trainer(config_of("run", layout), {}, {}, &world);
      trainer.step();
      for (optim::AdamW::State& state : trainer.optimizer().states()) {
        if (world.rank() == 0) state.shard.value.fill_(std::nan(""));
      }
      try {
        trainer.step();
        ADD_FAILURE() << "the step continued";
      } catch (const std::exception& error) {
        EXPECT_THAT(error.what(), HasSubstr("step 2"));
        EXPECT_THAT(error.what(), HasSubstr("embedding.tokens.weight"));
      }
    });
  }
}

TEST_F(Ranks, RefusesAStepThatIsNotDivisibleAmongRanks) {
  const auto complaint = [&](int64_t ranks, const Keys& keys) -> std::string {
    try {
      schedule::check_ranks(tiny_config(keys), ranks, ranks);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      complaint(3, {}),
      "a step does not fit the ranks:\n  train.global_batch = 4 sequences are not divisible among 3 data-parallel "
      "ranks; use 3 or 6, or 2 ranks");
  EXPECT_EQ(complaint(4, {}),
            "a step does not fit the ranks:\n  train.micro_batch = 2 does not divide the 1 sequences of each of 4 "
            "data-parallel ranks; use 1, or global_batch 8");
  EXPECT_EQ(complaint(2, {}), "");
  EXPECT_EQ(complaint(4, {"train.micro_batch=4"}),
            "a step does not fit the ranks:\n  train.micro_batch = 4 does not divide the 1 sequences of each of 4 "
            "data-parallel ranks; use 1, or global_batch 16");
  EXPECT_EQ(complaint(4, {"train.micro_batch=0"}), "");  // a rank's whole share
  EXPECT_THAT(complaint(2, {"layout.shard_optimizer=3"}), HasSubstr("optimizer states over 3 ranks do not fit"));
}

}  // namespace
}  // namespace terrace::run
