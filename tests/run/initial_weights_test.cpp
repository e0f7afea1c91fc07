// Tests that tensors computed from those of another model's checkpoint are cut as every layout wants, on a GPT whose
// family maps its tables to longer sequences and more rows of the vocabulary.
#include "terrace/train/initial_weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_linear1d.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/models/gpt/gpt_family.h"
#include "terrace/models/gpt/model.h"
#include "terrace/parallel/states.h"
#include "terrace/run/run_training.h"
#include "terrace/train/world_options.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;
using Keys = std::vector<std::string>;
using Tensors = std::map<std::string, at::Tensor>;

// Positions between the stored ones, and the mean row of the vocabulary for rows that are not stored.
at::Tensor stretched(const at::Tensor& table, int64_t rows) {
  return at::upsample_linear1d(table.t().unsqueeze(0), {rows}, /*align_corners=*/true).squeeze(0).t();
}

at::Tensor filled_up(const at::Tensor& table, int64_t rows) {
  return at::cat({table, table.mean(0, true).expand({rows - table.size(0), table.size(1)})});
}

std::atomic<int> stretches = 0;  // how often positions were computed

class StretchedGpt : public models::ModelOfFamily {
 public:
  std::unique_ptr<models::Model> build(const config::Config& config, const nn::Build& build) const override {
    return models::gpt::family().model->build(config, build);
  }

  models::WeightMap map_weights(const models::WeightMapRequest& request) const override {
    models::WeightMap map;
    for (const auto& [name, shape] : request.wanted) {
      const auto stored = request.stored.find(name);
      if (stored == request.stored.end()) {
        map.initial.insert(name);
      } else if (stored->second != shape && name.starts_with("embedding.")) {
        const bool positions = name == "embedding.positions.weight";
        map.computed[name] = {.from = {name}, .compute = [rows = shape[0], positions](const auto& from) {
                                if (positions) ++stretches;
                                return (positions ? stretched : filled_up)(from.front(), rows);
                              }};
      }
    }
    for (const auto& [name, shape] : request.stored) {
      if (name.ends_with("bias") && !request.wanted.contains(name)) map.dropped.insert(name);
    }
    return map;
  }
};

const config::Family& stretched_family() {
  static const StretchedGpt model;
  static const config::Family family = [] {
    config::Family all = models::gpt::family();
    all.model = &model;
    return all;
  }();
  return family;
}

class InitialWeightsOfAnotherModel : public train::TinyRun {
 protected:
  config::Config config_of(const config::Family& family, Keys keys) const {
    keys.insert(keys.begin(), "train.threads=1");
    return config::parse(config::dump(tiny_config()), "tiny.toml", {&family}, keys);
  }

  std::string trained(const Keys& keys) const {
    return run_training(config_of(stretched_family(), keys), {.ranks = 2}).checkpoint.string();
  }

  Tensors begun(int64_t ranks, const Keys& keys) const {
    Tensors tensors;
    const config::Config config = config_of(stretched_family(), keys);
    std::mutex mutex;
    comm::run_threads(ranks, train::world_options(config), [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      trainer.take_initial_weights(checkpoint::Reader(config.train.initial_weights));
      const std::lock_guard lock(mutex);
      parallel::place_own_elements(
          trainer.model().parameters(), trainer.optimizer(), [](const auto& state) { return state.master; }, tensors);
    });
    return tensors;
  }

  static Tensors stored_in(const std::string& path, const Keys& names) {
    const checkpoint::Reader reader(path);
    checkpoint::Collection collection{"weights", {}};
    Tensors tensors;
    for (const std::string& name : names) {
      const std::vector<int64_t> shape = reader.shapes("weights").at(name);
      tensors[name] = at::empty(shape);
      collection.tensors.push_back({name, tensors[name], ParamMark::replicated(shape)});
    }
    reader.read_some(collection);
    return tensors;
  }
};

TEST_F(InitialWeightsOfAnotherModel, SameBitsAtEveryLayout) {
  const Keys names = {"embedding.tokens.weight", "embedding.positions.weight", "blocks.1.ffn.second.weight"};
  const std::string checkpoint = trained({"train.steps=2", "layout.tensor=2", "model.bias=false"});
  const Keys keys = {"train.initial_weights=" + checkpoint, "model.sequence=27", "model.vocabulary_multiple=84"};
  const Tensors one = begun(1, keys), stored = stored_in(checkpoint, names);
  EXPECT_TRUE(one.at(names[0]).equal(filled_up(stored.at(names[0]), 84)));
  EXPECT_TRUE(one.at(names[1]).equal(stretched(stored.at(names[1]), 27)));
  EXPECT_TRUE(one.at(names[2]).equal(stored.at(names[2])));
  for (const auto& [ranks, layout] : std::vector<std::pair<int64_t, Keys>>{
           {2, {"layout.sharding=zero3"}},
           {2, {"layout.tensor=2"}},
           {3, {"layout.tensor=3"}},
           {4, {"layout.tensor=2", "layout.sharding=zero3"}},
           {2, {"layout.pipeline=2", "layout.stage_layers=[2, 0]"}},
           {8, {"layout.pipeline=2", "layout.tensor=2", "layout.sharding=zero1", "train.precision=bf16"}}}) {
    SCOPED_TRACE(layout.front());
    Keys all = keys;
    all.insert(all.end(), layout.begin(), layout.end());
    const Tensors ours = begun(ranks, all);
    ASSERT_EQ(ours.size(), one.size());
    for (const auto& [name, tensor] : ours) EXPECT_TRUE(tensor.equal(one.at(name))) << name;
  }
}

TEST_F(InitialWeightsOfAnotherModel, NamesTensorsThatAreNotTakenAsTheyAre) {
  const checkpoint::Reader reader(trained({"train.steps=2"}));
  const auto text = [&](const Keys& keys) {
    return train::InitialWeights(config_of(stretched_family(), keys), reader).text();
  };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({"model.sequence=20"}), "1 tensor computed: embedding.positions.weight");
  EXPECT_THAT(text({"model.sequence=20", "model.tied_head=false"}),
              HasSubstr("1 tensor computed: embedding.positions.weight; 1 tensor at its initial values: "
                        "head.output.weight"));
  EXPECT_THAT(text({"model.bias=false"}), testing::EndsWith(" and 5 more"));
}

TEST_F(InitialWeightsOfAnotherModel, ComputedOnlyWhereTheyAreHeld) {
  const Keys keys = {"train.initial_weights=" + trained({"train.steps=2"}), "model.sequence=20", "layout.pipeline=2",
                     "model.tied_head=false"};
  stretches = 0;
  begun(2, keys);
  EXPECT_EQ(stretches, 1);
}

// The family leaves layers alone, and a GPT leaves all tensors.
TEST_F(InitialWeightsOfAnotherModel, RefusesWeightsThatFitNeitherWay) {
  const std::string path = trained({"train.steps=2"});
  const checkpoint::Reader reader(path);
  const auto refusal = [&](const config::Family& family, const Keys& keys) {
    try {
      const train::InitialWeights taken(config_of(family, keys), reader);
      return "nothing was refused; " + taken.text();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal(stretched_family(), {"model.layers=1", "model.sequence=20"}),
              HasSubstr("'blocks.1.attention.qkv.weight' is in the checkpoint and not in this model\n"));
  EXPECT_EQ(refusal(models::gpt::family(), {"model.sequence=20"}),
            "the weights of checkpoint " + path +
                " do not fit this model:\n  'embedding.positions.weight' has shape [16, 24] in the checkpoint and [20, "
                "24] in this model\nUse the [model] of its config.toml");
}

}  // namespace
}  // namespace terrace::run
