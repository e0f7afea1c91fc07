// Tests what checkpoints of pairs hold beside weights and optimizer states, and that a run begins from the checkpoint
// of other pairs with the same bits at every layout.
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/parallel/states.h"
#include "terrace/run/check_run.h"
#include "terrace/train/initial_weights.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"
#include "tests/families/pair/runs.h"

namespace terrace::pair {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

class FamilyCheckpoints : public PairRuns {
 protected:
  static Keys with(Keys keys, const Keys& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  std::vector<std::string> buffer_files(const std::filesystem::path& checkpoint) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
      if (entry.path().filename().string().starts_with("buffers")) names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  // The newest checkpoint of a run with four layers of width 8 and buffers.
  std::filesystem::path stored() {
    run(2, {"model.buffers=true", "checkpoint.folder=" + (folder_ / "stored").string()});
    return checkpoint::resolve(folder_ / "stored");
  }

  // The tensors with which a new run begins on each of the ranks together.
  std::map<std::string, at::Tensor> begun(int64_t ranks, const Keys& keys) {
    std::map<std::string, at::Tensor> tensors;
    const config::Config settings = config(keys);
    std::mutex mutex;
    comm::run_threads(ranks, train::world_options(settings), [&](comm::World& world) {
      train::Trainer trainer(settings, {}, {}, &world);
      trainer.take_initial_weights(checkpoint::Reader(settings.train.initial_weights));
      const std::lock_guard lock(mutex);
      parallel::place_own_elements(
          trainer.model().parameters(), trainer.optimizer(), [](const auto& state) { return state.master; }, tensors);
      for (const nn::Buffer* buffer : trainer.cut().stage.buffers()) {
        const auto [known, is_new] = tensors.emplace(buffer->name, buffer->value.clone());
        EXPECT_TRUE(is_new || known->second.equal(buffer->value)) << buffer->name;
      }
    });
    return tensors;
  }

  static void expect_equal(const std::map<std::string, at::Tensor>& ours,
                           const std::map<std::string, at::Tensor>& theirs) {
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [name, tensor] : ours) EXPECT_TRUE(tensor.equal(theirs.at(name))) << name;
  }
};

TEST_F(FamilyCheckpoints, HoldEachBufferOnce) {
  const Keys keys = {"model.buffers=true", "train.steps=1"};
  run(1, keys);
  EXPECT_THAT(buffer_files(folder_ / "run/step_00000001"), ElementsAre("buffers.safetensors"));
  run(4, with(keys, {"layout.sharding=zero3"}));
  EXPECT_EQ(buffer_files(folder_ / "run/step_00000001").size(), 1u);
  run(4, with(keys, {"layout.pipeline=2"}));
  EXPECT_EQ(buffer_files(folder_ / "run/step_00000001").size(), 2u);
  run(4, {"train.steps=1"});
  EXPECT_TRUE(buffer_files(folder_ / "run/step_00000001").empty());
  EXPECT_TRUE(checkpoint::Reader(folder_ / "run/step_00000001").shapes(checkpoint::buffers_collection).empty());
}

// Two data-parallel ranks at every layout, so that all runs have the same sums.
TEST_F(FamilyCheckpoints, BringBuffersBackAtAnotherLayout) {
  const Keys keys = {"model.buffers=true", "optimizer.schedule=constant", "optimizer.clip=0.0", "train.micro_batch=1"};
  const Result whole = run(2, with(keys, {"train.steps=10"}));
  for (const auto& [ranks, layout] :
       std::vector<std::pair<int64_t, Keys>>{{2, {"layout.sharding=zero3"}},
                                             {4, {"layout.pipeline=2"}},
                                             {4, {"layout.pipeline=2", "layout.sharding=zero1"}}}) {
    SCOPED_TRACE(layout.front());
    run(4, with(keys, {"train.steps=5", "layout.pipeline=2"}));
    const Result resumed = run(ranks, with(with(keys, {"train.steps=10"}), layout), "auto");
    expect_equal(resumed.tensors, whole.tensors);
  }
}

TEST_F(FamilyCheckpoints, AnEvaluationReadsBuffers) {
  const Result done = run(2, {"model.buffers=true", "train.evaluate_every=4"});
  const checkpoint::Reader reader(folder_ / "run/step_00000004");
  double loss = 0;
  const config::Config settings = config({"model.buffers=true"});
  comm::run_threads(2, train::world_options(settings), [&](comm::World& world) {
    train::Trainer trainer(settings, {}, {}, &world);
    trainer.load_weights(reader);
    const std::optional<train::Evaluation> evaluation = trainer.evaluate(0);
    if (world.rank() == 0) loss = evaluation->all.loss;
  });
  EXPECT_EQ(loss, done.metrics.evaluations.at(4).validation_loss);
}

// A wider model repeats the tensors, and its fifth layer is new.
TEST_F(FamilyCheckpoints, AWiderModelBeginsWithTheSameBitsAtEveryLayout) {
  const std::string checkpoint = stored().string();
  const Keys keys = {"train.initial_weights=" + checkpoint, "model.width=13", "model.layers=5", "model.buffers=true",
                     "train.seed=7"};
  const auto old = tensors_of(checkpoint, config({"model.buffers=true"}));
  const auto one = begun(1, keys);
  const at::Tensor rows = at::arange(13).remainder(8);
  EXPECT_TRUE(one.at("layers.3.wide.weight")
                  .equal(old.at("weights/layers.3.wide.weight").index_select(0, rows).index_select(1, rows)));
  EXPECT_TRUE(one.at("layers.1.passes").equal(old.at("buffers/layers.1.passes").index_select(0, rows)));
  EXPECT_TRUE(one.at("scale").equal(old.at("buffers/scale")));
  EXPECT_TRUE(one.at("layers.3.narrow.weight").equal(old.at("weights/layers.3.narrow.weight")));
  const train::Trainer fresh(config(with(keys, {"train.initial_weights=\"\""})), {});
  for (const nn::Parameter* parameter : const_cast<train::Trainer&>(fresh).model().parameters()) {
    if (!parameter->name.starts_with("layers.4")) continue;
    EXPECT_TRUE(one.at(parameter->name).equal(parameter->value.detach())) << parameter->name;
  }
  for (const auto& [ranks, layout] : std::vector<std::pair<int64_t, Keys>>{
           {2, {"layout.sharding=zero3"}},
           {3, {"layout.sharding=zero1"}},
           {8, {"layout.sharding=three_level", "layout.ranks_per_node=4"}},
           {3, {"layout.pipeline=3"}},
           {4, {"layout.pipeline=2", "layout.sharding=zero3", "train.precision=bf16", "model.fp32_narrow=true"}},
           {2, {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"}}}) {
    SCOPED_TRACE(layout.front());
    expect_equal(begun(ranks, with(keys, layout)), one);
  }
}

TEST_F(FamilyCheckpoints, ACheckSaysWhatIsNotTakenAsItIs) {
  const Keys keys = {"train.initial_weights=" + stored().string(), "model.buffers=true",
                     "checkpoint.folder=" + (folder_ / "new").string()};
  EXPECT_EQ(run::check_run(config(keys), {}).initial_weights, "");
  EXPECT_EQ(run::check_run(config(with(keys, {"model.layers=5"})), {}).initial_weights,
            "5 tensors at their initial values: layers.4.narrow.bias, layers.4.narrow.weight, layers.4.passes, "
            "layers.4.wide.bias, layers.4.wide.weight");
  EXPECT_EQ(run::check_run(config(with(keys, {"model.layers=2", "model.buffers=false"})), {}).initial_weights,
            "13 tensors of the checkpoint dropped: layers.0.passes, layers.1.passes, layers.2.narrow.bias, "
            "layers.2.narrow.weight, layers.2.passes, layers.2.wide.bias, layers.2.wide.weight, layers.3.narrow.bias "
            "and 5 more");
  EXPECT_EQ(run::check_run(config(with(keys, {"model.width=9"})), {}).initial_weights,
            "16 tensors computed: features.bias, features.weight, layers.0.narrow.weight, layers.0.passes, "
            "layers.0.wide.bias, layers.0.wide.weight, layers.1.passes, layers.1.wide.bias and 8 more");
}

TEST_F(FamilyCheckpoints, RefusesAShapeThatTheFamilyDoesNotMap) {
  const std::string checkpoint = stored().string();
  const Keys keys = {"train.initial_weights=" + checkpoint, "model.buffers=true", "model.width=4",
                     "checkpoint.folder=" + (folder_ / "new").string()};
  const auto said = AllOf(HasSubstr("train.initial_weights = \"" + checkpoint + "\""),
                          HasSubstr("'features.weight' has shape [8, 6] in the checkpoint and [4, 6] in this model"),
                          HasSubstr("Use the [model] of its config.toml"));
  EXPECT_THAT(run::check_run(config(keys), {}).problems, ElementsAre(said));
  try {
    run::run_training(config(keys), {});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), said);
  }
}

// The kept errors of both flat buffers of a segment are saved apart.
TEST_F(FamilyCheckpoints, AResumedRunHasTheErrorsOfBothTypes) {
  Keys keys = {
      "train.precision=bf16",       "model.fp32_narrow=true",  "layout.sharding=zero2",       "layout.reduce_type=int8",
      "layout.error_feedback=true", "layout.gather_type=bf16", "optimizer.schedule=constant", "train.steps=10"};
  const Result whole = run(2, keys);
  keys.back() = "train.steps=5";
  run(2, keys);
  keys.back() = "train.steps=10";
  expect_same(run(2, keys, "auto"), whole);
}

}  // namespace
}  // namespace terrace::pair
