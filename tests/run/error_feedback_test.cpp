// Tests runs whose errors of quantized gradients are fed back: resuming bit for bit, beginning at zero where the
// errors do not fit, skipped steps and the loss scale.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/ops/kernels.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Keys = std::vector<std::string>;

struct FedBackLayout {
  std::string name;
  int64_t ranks;
  Keys keys;
};

const FedBackLayout zero3{"zero3", 2, {"layout.sharding=zero3", "layout.gather_type=int8"}};

const FedBackLayout layouts[] = {
    zero3,
    {"ddp", 3, {}},
    {"rails", 4, {"layout.sharding=zero3", "layout.ranks_per_node=2", "layout.route=rails"}},
    {"three_level", 4, {"layout.sharding=three_level", "layout.ranks_per_pair=1", "layout.ranks_per_node=2"}},
    {"pipeline", 4, {"layout.pipeline=2", "layout.sharding=zero2"}},
    {"zb-v", 4, {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"}},
    {"tensor", 4, {"layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero1"}},
    {"bf16", 2, {"layout.sharding=zero2", "train.precision=bf16", "train.gradient_type=bf16"}},
    {"fp16", 2, {"layout.sharding=zero2", "train.precision=fp16", "train.loss_scale_window=2"}},
};

class FedBackRuns : public train::TinyRun {
 protected:
  config::Config config_of(const std::string& name, const FedBackLayout& layout, Keys keys = {}) const {
    keys.insert(keys.begin(), layout.keys.begin(), layout.keys.end());
    keys.insert(keys.begin(), {"layout.reduce_type=int4", "layout.error_feedback=true", "train.threads=1",
                               "checkpoint.keep=0", "train.global_batch=12", "train.micro_batch=1",
                               "optimizer.decay_steps=10", "checkpoint.folder=" + (folder_ / name).string()});
    return tiny_config(keys);
  }

  // Runs a training and returns its log.
  std::string start(const std::string& name, const FedBackLayout& layout, const Keys& keys = {},
                    const std::string& resume = "") {
    testing::internal::CaptureStdout();
    try {
      run_training(config_of(name, layout, keys),
                   {.ranks = layout.ranks, .resume = resume, .measure_peak = [](const at::Device&, at::ScalarType) {
                      return train::Peak{1e9, "a peak for the test"};
                    }});
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }

  // The bytes of every file with tensors in a checkpoint, by name.
  std::map<std::string, std::string> tensors_in(const std::string& name, int64_t step) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / name / checkpoint::step_name(step))) {
      if (entry.path().extension() != ".safetensors") continue;
      files[entry.path().filename().string()] = read_text(entry.path());
    }
    return files;
  }

  // Calls it on each rank with a trainer of this layout.
  void on_ranks(const FedBackLayout& layout, const Keys& keys, const std::function<void(train::Trainer&)>& rank_main) {
    const config::Config config = config_of("run", layout, keys);
    comm::run_threads(layout.ranks, {}, [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      rank_main(trainer);
    });
  }
};

// The errors as numbers.
at::Tensor errors_of(train::Trainer& trainer) {
  std::vector<at::Tensor> all;
  for (const parallel::KeptErrors& kept : trainer.cut().sharded.kept_errors()) {
    const int64_t values = kept.codes.numel() / 260 * 256;
    all.push_back(at::empty({values}, at::kFloat));
    ops::cpu_kernels().decode_blocks({.code = ops::BlockCode::int8}, kept.codes, all.back());
  }
  return at::cat(all);
}

TEST_F(FedBackRuns, ContinueBitForBit) {
  for (const FedBackLayout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    const std::string whole = layout.name + " whole", half = layout.name + " half";
    start(whole, layout, {"train.steps=10", "checkpoint.every=5"});
    start(half, layout, {"train.steps=5"});
    const std::string log = start(half, layout, {"train.steps=10"}, "auto");
    EXPECT_THAT(log, Not(HasSubstr("quantized gradients")));
    const auto expected = tensors_in(whole, 10), saved = tensors_in(half, 10), middle = tensors_in(whole, 5);
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(saved.at(name) == bytes) << name;
    for (int64_t rank = 0; rank < layout.ranks; ++rank) {
      const std::string name = fmt::format("gradient_errors.rank_{:04}.safetensors", rank);
      EXPECT_FALSE(expected.at(name) == middle.at(name)) << name;
    }
  }
}

// In the background a copy of the state is written.
TEST_F(FedBackRuns, BackgroundSavesEqualForegroundSaves) {
  start("beside", zero3, {"train.steps=6", "checkpoint.every=3"});
  start("between", zero3, {"train.steps=6", "checkpoint.every=3", "checkpoint.background=false"});
  for (const int64_t step : {3, 6}) EXPECT_TRUE(tensors_in("beside", step) == tensors_in("between", step)) << step;
}

TEST_F(FedBackRuns, ErrorsBeginAtZeroIfSavedOnesDifferOrAreMissing) {
  const FedBackLayout three{"three", 3, {"layout.sharding=zero3"}};
  const FedBackLayout nodes{
      "nodes", 4, {"layout.sharding=three_level", "layout.ranks_per_pair=1", "layout.ranks_per_node=2"}};
  const FedBackLayout one{"one", 1, {}};
  const Keys off = {"layout.error_feedback=false"};
  start("run", zero3, {"train.steps=2"});
  EXPECT_THAT(start("run", three, {"train.steps=3"}, "auto"),
              HasSubstr("the errors of quantized gradients begin at zero: " +
                        (folder_ / "run" / checkpoint::step_name(2)).string() + " has those of another layout"));
  EXPECT_THAT(start("run", nodes, {"train.steps=4"}, "auto"), HasSubstr("has those of another layout"));
  EXPECT_THAT(start("run", nodes, {"train.steps=5"}, "auto"), Not(HasSubstr("quantized gradients")));
  EXPECT_THAT(start("run", nodes, {off.front(), "train.steps=6"}, "auto"),
              HasSubstr("are not used: this run keeps none"));
  EXPECT_THAT(start("run", nodes, {"train.steps=7"}, "auto"),
              HasSubstr("the errors of quantized gradients begin at zero: " +
                        (folder_ / "run" / checkpoint::step_name(6)).string() + " has none"));
  EXPECT_THAT(start("run", one, {"train.steps=8"}, "auto"), HasSubstr("are not used: this run keeps none"));
}

// The type of the calls inside nodes decides which reductions round a rank's own gradient, and so keep errors.
TEST_F(FedBackRuns, ErrorsBeginAtZeroIfOtherReductionsKeptThem) {
  const FedBackLayout& everywhere = layouts[3];
  FedBackLayout between = everywhere, within = everywhere;
  between.keys.emplace_back("layout.node_type=bf16");
  within.keys.insert(within.keys.end(), {"layout.node_type=fp32", "layout.ranks_per_node=4"});
  start("run", between, {"train.steps=2"});
  EXPECT_THAT(start("run", between, {"train.steps=3"}, "auto"), Not(HasSubstr("quantized gradients")));
  EXPECT_THAT(start("run", everywhere, {"train.steps=4"}, "auto"),
              HasSubstr("the errors of quantized gradients begin at zero: " +
                        (folder_ / "run" / checkpoint::step_name(3)).string() + " has those of another layout"));
  EXPECT_THAT(start("run", between, {"train.steps=5"}, "auto"), HasSubstr("has those of another layout"));
  EXPECT_THAT(start("run", within, {"train.steps=6"}, "auto"), HasSubstr("are not used: this run keeps none"));
  EXPECT_THAT(start("run", everywhere, {"train.steps=7"}, "auto"), HasSubstr("has none"));
}

TEST_F(FedBackRuns, ForgetTheErrorsOfASkippedStepOnEveryRank) {
  for (const FedBackLayout& layout : {zero3, layouts[3]}) {
    on_ranks(layout, {"train.on_nan=skip"}, [&](train::Trainer& trainer) {
      trainer.step();
      EXPECT_GT(errors_of(trainer).abs().max().item<float>(), 0);
      trainer.cut().sharded.finish_update();  // which reads the weights that are changed here
      std::vector<at::Tensor> before;
      for (optim::AdamW::State& state : trainer.optimizer().states()) {
        before.push_back(state.shard.value.clone());
        if (trainer.rank() == 1) state.shard.value.narrow(0, 0, 1).fill_(std::nan(""));
      }
      EXPECT_FALSE(trainer.step().applied);
      EXPECT_EQ(errors_of(trainer).abs().max().item<float>(), 0) << trainer.rank();
      for (size_t i = 0; i < before.size(); ++i) trainer.optimizer().states()[i].shard.value.copy_(before[i]);
      EXPECT_TRUE(trainer.step().applied);
    });
  }
}

// Errors are those of gradients times the loss scale.
TEST_F(FedBackRuns, ScaleTheErrorsWithTheLoss) {
  const Keys fp16 = {"train.precision=fp16", "train.initial_loss_scale=256"};
  std::mutex mutex;
  std::map<int64_t, at::Tensor> constant;
  on_ranks(zero3, {fp16[0], fp16[1], "train.loss_scale_window=1000"}, [&](train::Trainer& trainer) {
    trainer.step();
    const std::lock_guard lock(mutex);
    constant[trainer.rank()] = errors_of(trainer);
  });
  on_ranks(zero3, {fp16[0], fp16[1], "train.loss_scale_window=1"}, [&](train::Trainer& trainer) {
    EXPECT_EQ(trainer.step().loss_scale, 256);
    EXPECT_TRUE(errors_of(trainer).equal(constant.at(trainer.rank()) * 2));
    EXPECT_EQ(trainer.step().loss_scale, 512);
  });
}

TEST_F(FedBackRuns, ForgetTheErrorsOfAnOverflow) {
  on_ranks(zero3, {"train.precision=fp16", "train.initial_loss_scale=16777216"}, [&](train::Trainer& trainer) {
    EXPECT_FALSE(trainer.step().applied);
    EXPECT_EQ(errors_of(trainer).abs().max().item<float>(), 0);
    while (!trainer.step().applied) EXPECT_EQ(errors_of(trainer).abs().max().item<float>(), 0);
    EXPECT_GT(errors_of(trainer).abs().max().item<float>(), 0);
  });
}

}  // namespace
}  // namespace terrace::run
