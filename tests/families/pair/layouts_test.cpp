// Tests that the trainer trains pairs to the same bits with every layout. With five samples in a step, some ranks of
// larger worlds have no samples, and some micro-batches have no items.
#include <gtest/gtest.h>

#include "terrace/base/files/file.h"
#include "terrace/data/source.h"
#include "terrace/train/trainer.h"
#include "terrace/verify/verify.h"
#include "tests/families/pair/runs.h"
#include "tests/families/pair/source.h"

namespace terrace::pair {
namespace {

class FamilyLayouts : public PairRuns {};

TEST_F(FamilyLayouts, EveryShardingTrainsTheSameBits) { expect_equal(parallel::all_layouts(), {}); }

TEST_F(FamilyLayouts, SameBitsInBf16WithRecomputeAndAccumulation) {
  expect_equal(parallel::some_layouts(),
               {"train.precision=bf16", "train.recompute=full", "train.global_batch=11", "train.micro_batch=1"});
}

TEST_F(FamilyLayouts, SameBitsWithFp32BesideBf16InASegment) {
  const Keys keys = {"train.precision=bf16", "model.fp32_narrow=true"};
  expect_equal(parallel::all_layouts(), keys);
  expect_equal(parallel::some_layouts(), {keys[0], keys[1], "train.global_batch=11", "train.micro_batch=1",
                                          "train.recompute=full", "train.gradient_type=bf16"});
  expect_one_stage(2, keys);
}

TEST_F(FamilyLayouts, BuffersAreThoseOfPlainDataParallelism) {
  const Keys keys = {"model.buffers=true", "train.evaluate_every=2"};
  expect_equal(parallel::some_layouts(), keys);
  expect_one_stage(2, {keys[0], keys[1], "train.recompute=full"});
  // A forward that recompute repeats is counted once.
  expect_same(run(2, {keys[0], keys[1], "train.recompute=full"}), run(2, keys));
}

// The first step's loss and gradients are those of the initial values.
TEST_F(FamilyLayouts, EveryInitialValueIsTheSame) {
  for (const char* initial : {"model.initial=uniform", "model.initial=truncated", "model.initial=table"}) {
    SCOPED_TRACE(initial);
    expect_equal(parallel::some_layouts(), {initial, "train.steps=1"});
    expect_one_stage(1, {initial, "train.steps=1", "train.micro_batch=1"});
  }
}

TEST_F(FamilyLayouts, PipelinesTrainAsOneStageDoes) {
  expect_one_stage(1, {"train.micro_batch=1"});
  expect_one_stage(2, {"train.recompute=full"});
}

TEST_F(FamilyLayouts, PipelinesOfManyRanksHaveRanksWithoutSamples) {
  expect_one_stage(4, {"train.global_batch=3", "train.micro_batch=1", "layout.sharding=zero1"});
}

// With a budget, steps have different numbers of micro-batches. The ranks compare their calls.
TEST_F(FamilyLayouts, EveryShardingTrainsTheSameBitsInABudget) { expect_equal(parallel::all_layouts(), in_budget()); }

TEST_F(FamilyLayouts, PipelinesTrainAsOneStageDoesInABudget) {
  expect_one_stage(1, in_budget());
  expect_one_stage(2, in_budget());
  Keys few_samples = in_budget();
  few_samples.emplace_back("train.global_batch=3");
  few_samples.emplace_back("layout.sharding=zero1");
  expect_one_stage(4, few_samples);
}

// A hook that has the model predict five samples, without their targets, and writes the predictions to a file.
class WritesPredictions : public train::Hook {
 public:
  explicit WritesPredictions(std::filesystem::path file) : file_(std::move(file)) {}

  void after_step(train::Trainer&, const train::StepReport&) override {}
  void at_end(train::Trainer& trainer) override {
    const PairSource source(data_of(trainer.config()), trainer.config().train.seed);
    std::vector<std::vector<float>> samples;
    for (uint64_t sample = 0; sample < 5; ++sample) samples.push_back(source.sample(sample));
    const models::Outputs outputs = trainer.outputs(micro_batch_of({0, 1, 2, 3, 4}, samples, {"features", "owner"}));
    if (trainer.mesh().coordinate(trainer.rank(), "data") != 0 || outputs.empty()) return;
    const at::Tensor prediction = outputs.at("prediction").contiguous();
    std::ofstream(file_, std::ios::binary)
        .write(static_cast<const char*>(prediction.const_data_ptr()),
               static_cast<std::streamsize>(prediction.nbytes()));
  }

 private:
  std::filesystem::path file_;
};

TEST_F(FamilyLayouts, PredictTheSameAtEveryLayout) {
  const std::filesystem::path file = folder_ / "predictions.bin";
  std::string one;
  for (const auto& [ranks, keys] : std::vector<std::pair<int64_t, Keys>>{
           {1, {}},
           {2, {"layout.sharding=zero3"}},
           {2, {"layout.pipeline=2"}},
           {3, {"layout.pipeline=3"}},
           {2, {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"}},
           {4, {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2", "layout.sharding=zero1"}}}) {
    SCOPED_TRACE(keys.empty() ? "" : keys.back());
    std::filesystem::remove_all(folder_ / "run");
    std::filesystem::remove(file);
    Keys all = keys;
    // With so small a rate all layouts have the weights that they begin with.
    for (const char* key : {"train.steps=1", "optimizer.learning_rate=1e-30", "train.micro_batch=1"})
      all.emplace_back(key);
    run::run_training(config(all), {.ranks = ranks, .prepare = [&](train::Trainer& trainer) {
                                      trainer.add_hook(std::make_unique<WritesPredictions>(file));
                                    }});
    const std::string predictions = read_text(file);
    EXPECT_GT(predictions.size(), 4u);
    if (one.empty()) one = predictions;
    EXPECT_EQ(predictions, one);
  }
}

TEST_F(FamilyLayouts, PassVerify) {
  for (const Keys& keys : std::vector<Keys>{{"layout.sharding=zero3", "train.global_batch=8"},
                                            {"layout.sharding=zero1", "train.precision=bf16", "train.global_batch=8"},
                                            {"layout.pipeline=2", "train.global_batch=8", "optimizer.clip=0.0"},
                                            {"layout.sharding=zero3", "train.precision=bf16", "train.global_batch=8",
                                             "model.fp32_narrow=true", "model.buffers=true", "train.recompute=full"}}) {
    const verify::Verdict verdict = verify::verify(config(keys), {.ranks = 2});
    EXPECT_TRUE(verdict.holds()) << keys.front() << "\n" << verify::text(verdict);
  }
}

}  // namespace
}  // namespace terrace::pair
