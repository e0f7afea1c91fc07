// A vision transformer trains on prepared fields at every layout of the tables, resumes, learns and fine-tunes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "tests/data/fields_files.h"
#include "tests/families/runs.h"

namespace terrace::models::vit {
namespace {

// Waves that move around the globe by 45 degrees in six hours, on 6 x 8 places.
class VitRuns : public RunsOfFamily {
 protected:
  VitRuns() {
    data::TestFile file;
    file.times.clear();
    for (int i = 0; i < 160; ++i) file.times.push_back(6 * i);
    file.latitudes = {-75, -45, -15, 15, 45, 75};
    file.longitudes = {0, 45, 90, 135, 180, 225, 270, 315};
    const auto wave = [](double size, double latitudes) {
      return [=](double time, double, double latitude, double longitude) {
        return size * std::cos((longitude - 7.5 * time) * 0.0174533 + latitudes * latitude) + latitude / 50;
      };
    };
    file.variables = {{.name = "t", .value = wave(2, 0.02)},
                      {.name = "u", .value = wave(5, 0)},
                      {.name = "orography", .dimensions = {"lat", "lon"}, .value = wave(1, 0.1)}};
    data::prepare_fields({file.write((folder_ / "in.nc").string())}, (folder_ / "waves").string(),
                         {{"train", {"2000-01-01", "2000-01-30"}}, {"validation", {"2000-01-31", "2000-02-09"}}});
  }

  config::Config config(const Keys& overrides) const override {
    const std::string toml = fmt::format(
        "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\"]\ngrid = [6, 8]\npatch = 2\nlayers = 3\nwidth = 24\n"
        "heads = 12\nloss_weights = {{t = 0.5}}\n"
        "[data]\nfields = \"{0}/waves\"\nleads = [\"6h\", \"12h\"]\nconstants = [\"orography\"]\n"
        "[train]\nglobal_batch = 24\nmicro_batch = 1\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
        "[optimizer]\nlearning_rate = 1e-2\n[layout]\ndeterministic = true\n[checkpoint]\nfolder = \"{0}/run\"\n",
        folder_.string());
    return config::parse(toml, "vit.toml", families(), overrides);
  }
};

TEST_F(VitRuns, SameBitsWithEverySharding) { expect_equal(parallel::all_layouts()); }

// A weight whose gradient is noise is moved by AdamW all the same, with this epsilon by little.
TEST_F(VitRuns, TensorRanksTrainAsOneRank) {
  expect_one_rank({"optimizer.epsilon=1e-4"});
  expect_one_rank({"optimizer.epsilon=1e-4", "model.predicts=damped_anomaly", "data.leads=[\"6h\"]"});
}

// The largest difference between the biases of two runs.
double bias_difference(const std::map<std::string, at::Tensor>& ours, const std::map<std::string, at::Tensor>& theirs) {
  double largest = 0;
  for (const auto& [name, tensor] : ours) {
    if (!name.starts_with("weights/") || !name.ends_with("bias")) continue;
    largest = std::max(largest, tensor.sub(theirs.at(name)).abs().max().item<double>());
  }
  return largest;
}

// A bias that every tensor rank added before the sum over them would count several times. One rank with micro-batches
// of another size sums in another order; on tensor ranks the biases may differ by a few times as much.
TEST_F(VitRuns, BiasesAfterTwentyStepsOnTensorRanks) {
  const auto with = [](const Keys& more) {
    Keys keys = {"train.steps=20", "optimizer.schedule=constant", "optimizer.epsilon=1e-4"};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  const Result one = run(1, with({})), other_order = run(1, with({"train.micro_batch=4"}));
  const Result start = run(1, with({"optimizer.learning_rate=1e-30"}));
  const double rounding = bias_difference(other_order.tensors, one.tensors);
  ASSERT_GT(rounding, 0);
  ASSERT_GT(bias_difference(start.tensors, one.tensors), 1000 * rounding) << "biases are learned";
  const std::vector<std::pair<int64_t, Keys>> layouts = {
      {2, {"layout.tensor=2"}},
      {3, {"layout.tensor=3"}},
      {4, {"layout.tensor=4", "layout.sequence_parallel=true"}},
      {8, {"layout.tensor=2", "layout.sharding=hybrid", "layout.shard_group=2"}}};
  for (const auto& [ranks, keys] : layouts) {
    EXPECT_LE(bias_difference(run(ranks, with(keys)).tensors, one.tensors), 4 * rounding) << keys.front();
  }
}

// About one of every two samples skips the last block.
TEST_F(VitRuns, StochasticDepthAtEveryLayoutAndAfterAResume) {
  const auto with = [](const char* steps) {
    return Keys{"model.dropout=0.0", "model.drop_path=0.5", "optimizer.epsilon=1e-4", "optimizer.schedule=constant",
                steps};
  };
  const Keys drawn = with("train.steps=3");
  expect_equal({{2, {"sharding=zero3"}}, {4, {"sharding=hybrid", "shard_group=2"}}, {3, {"sharding=zero1"}}}, drawn);
  expect_one_rank(drawn);
  expect_one_stage(1, drawn, {{"layout.pipeline=3"}, {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"}});
  run(2, with("train.steps=1"));
  const Result resumed = run(2, drawn, "auto");
  expect_same(resumed, run(2, drawn));
  // Samples that skip no block lead to other weights: by ten times what tensor ranks may differ by, 2e-5.
  Keys without = drawn;
  without[1] = "model.drop_path=0.0";
  EXPECT_GT(bias_difference(run(2, without).tensors, resumed.tensors), 2e-4);
}

TEST_F(VitRuns, SameBitsInPipelines) {
  std::vector<Keys> compared = pipelines();
  compared.push_back({"layout.pipeline=3", "train.recompute=full"});
  expect_one_stage(1, {}, compared);
}

TEST_F(VitRuns, StagedFieldsGiveTheSameBits) {
  expect_same_when_staged({"train.evaluate_every=2", "model.predicts=anomaly"});
}

TEST_F(VitRuns, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  const auto with = [](const char* steps) {
    return Keys{"layout.sharding=zero3", "optimizer.schedule=constant", "train.evaluate_every=2", steps};
  };
  const Result whole = run(2, with("train.steps=4"));
  run(2, with("train.steps=2"));
  expect_same(run(2, with("train.steps=4"), "auto"), whole);
}

// A wave that has turned by 45 or 90 degrees differs from the start by 0.59 or 2 of its variance, so that a forecast of
// the mean alone would have a skill of 0.23.
TEST_F(VitRuns, LearnWhereTheWavesMove) {
  for (const char* predicts : {"field", "change", "anomaly"}) {
    const Result done =
        run(1, {"train.steps=120", "train.evaluate_every=120", "train.micro_batch=24", "model.dropout=0.0",
                "model.drop_path=0.0", fmt::format("model.predicts={}", predicts)});
    const observe::EvaluationMetrics& evaluation = done.metrics.evaluations.at(120);
    EXPECT_GT(evaluation.figures.at(0), 0.5) << predicts;  // skill
  }
}

// A wave that has turned by 90 degrees is as far from what it was as from its mean, so that the best coefficient is 0
// without the network, and with it the skill is what the network adds.
TEST_F(VitRuns, LearnWithDampedAnomalies) {
  const Result done =
      run(1, {"train.steps=120", "train.evaluate_every=120", "train.micro_batch=24", "model.dropout=0.0",
              "model.drop_path=0.0", "model.predicts=damped_anomaly", "data.leads=[\"12h\"]"});
  EXPECT_GT(done.metrics.evaluations.at(120).figures.at(0), 0.6);  // skill; of climatology 0.5
}

TEST_F(VitRuns, InitialWeightsOfOtherVariables) {
  run(2, {"train.steps=2", "checkpoint.folder=" + (folder_ / "stored").string()});
  const std::filesystem::path checkpoint = checkpoint::resolve(folder_ / "stored");
  const Keys keys = {"train.initial_weights=" + checkpoint.string(), "model.variables=[\"u\"]", "model.loss_weights={}",
                     "data.constants=[]", "train.steps=1"};
  const Result one = run(1, keys);
  Keys sharded = keys;
  sharded.emplace_back("layout.sharding=zero3");
  const Result two = run(2, sharded);
  EXPECT_TRUE(std::isfinite(one.metrics.steps.at(1).loss));
  EXPECT_NEAR(two.metrics.steps.at(1).loss, one.metrics.steps.at(1).loss, 1e-5 * one.metrics.steps.at(1).loss);
}

TEST_F(VitRuns, RefuseWhatTheDataLack) {
  EXPECT_THAT(refusal_of_run({"model.variables=[\"t\", \"w\"]"}),
              testing::HasSubstr("/waves has no variable w (like t?); it has t, u"));
  EXPECT_THAT(refusal_of_run({"model.grid=[4, 8]"}), testing::HasSubstr("6 x 8"));
  EXPECT_THAT(refusal_of_run({"model.predicts=damped_anomaly"}), testing::HasSubstr("the 2 leads of data.leads"));
  EXPECT_THAT(refusal_of_run({"data.leads=[\"7h\"]"}), testing::HasSubstr("25200 s, which is no multiple of the 6 h"));
}

}  // namespace
}  // namespace terrace::models::vit
