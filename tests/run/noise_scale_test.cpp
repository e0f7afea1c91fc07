// Tests the gradient noise scale of a run: against the gradients of single micro-batches computed without a trainer, at
// every kind of layout; that it changes no bit of the training, and that a resumed run continues it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <mutex>

#include "terrace/base/error.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/data_of_family.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "terrace/schedule/pipeline/first_micro_batch.h"
#include "terrace/train/world_options.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

struct MeasuredLayout {
  int64_t ranks, data_ranks;
  Keys keys;
};

void PrintTo(const MeasuredLayout& layout, std::ostream* out) {
  *out << fmt::format("{} ranks, {}", layout.ranks, fmt::join(layout.keys, ", "));
}

const std::vector<MeasuredLayout> measured_layouts = {
    {1, 1, {}},
    {1, 1, {"train.recompute=full"}},
    {2, 2, {}},
    {2, 2, {"layout.sharding=zero1"}},
    {2, 2, {"layout.sharding=zero2"}},
    {2, 2, {"layout.sharding=zero3"}},
    {2, 2, {"layout.sharding=zero3", "layout.deterministic=true"}},
    {3, 3, {"layout.deterministic=true"}},
    {4, 4, {"layout.sharding=hybrid", "layout.shard_group=2"}},
    {4, 4, {"layout.sharding=three_level", "layout.ranks_per_node=4"}},
    {12, 12, {"layout.sharding=zero2"}},
    {2, 1, {"layout.tensor=2"}},
    {2, 1, {"layout.tensor=2", "layout.sequence_parallel=true"}},
    // Two tensor ranks hold the same keys and values, and every one of them a share of the heads' norms.
    {6,
     1,
     {"layout.tensor=6", "model.kv_heads=3", "model.vocabulary_multiple=24", "model.qk_norm=true",
      "model.positions=rotary"}},
    {4, 2, {"layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero3"}},
    {2, 1, {"layout.pipeline=2"}},
    {2, 1, {"layout.pipeline=2", "layout.schedule=gpipe"}},
    {2, 1, {"layout.pipeline=2", "layout.schedule=zb-h1"}},
    {2, 1, {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"}},
    {2, 1, {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2", "model.tied_head=false"}},
    {4, 2, {"layout.pipeline=2", "layout.sharding=zero2", "layout.schedule=zb-h1"}},
    {8, 2, {"layout.pipeline=2", "layout.tensor=2", "layout.sharding=zero3", "layout.sequence_parallel=true"}},
};

class NoiseScaleOfRun : public train::TinyRun {
 protected:
  static constexpr int64_t samples = 12;

  config::Config config_of(const Keys& keys) const {
    Keys all = {"train.threads=1", "train.global_batch=12", "train.micro_batch=1", "train.noise_scale_every=1"};
    all.insert(all.end(), keys.begin(), keys.end());
    return tiny_config(all);
  }

  struct Outcome {
    std::vector<observe::StepMetrics> steps;
    std::vector<std::map<std::string, at::Tensor>> states;  // by rank
    Json trainer;                                           // of the checkpoint
  };

  // Trains `steps` steps on ranks that are threads, from a checkpoint if there is a path, with a checkpoint in `save`.
  Outcome train(const MeasuredLayout& layout, int64_t steps, const Keys& more = {},
                const std::filesystem::path& from = {}, const std::filesystem::path& save = {}) {
    Keys keys = layout.keys;
    keys.insert(keys.end(), more.begin(), more.end());
    const config::Config config = config_of(keys);
    Outcome outcome;
    outcome.states.resize(static_cast<size_t>(layout.ranks));
    std::mutex mutex;
    comm::run_threads(layout.ranks, train::world_options(config), [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      if (!from.empty()) trainer.resume(checkpoint::Reader(from));
      for (int64_t step = 0; step < steps; ++step) {
        const train::StepReport report = trainer.step();
        if (world.rank() == 0) outcome.steps.push_back(report.metrics);
      }
      if (!save.empty()) checkpoint::save(save, trainer.state(), {}, trainer.saving_group());
      const std::lock_guard lock(mutex);
      outcome.states[static_cast<size_t>(world.rank())] = snapshot(trainer);
      if (world.rank() == 0) outcome.trainer = trainer.state().trainer;
    });
    return outcome;
  }

  static std::vector<double> scales(const Outcome& outcome) {
    std::vector<double> list;
    for (const observe::StepMetrics& step : outcome.steps) list.push_back(step.noise_scale.value_or(-1));
    return list;
  }
};

// Computes in double precision with the model alone: no executor, no cut and no optimizer.
class PlainGradient {
 public:
  explicit PlainGradient(const config::Config& config)
      : config_(config), source_(data::data_of_family(config).open(config)) {}

  // The micro-batches of a data-parallel rank in the first step.
  std::vector<models::Batch> batches(int64_t rank, int64_t ranks) const {
    std::vector<models::Batch> list;
    for (data::MicroBatch& one :
         source_->micro_batches({.step = 1, .samples = 12, .rank = rank, .ranks = ranks, .micro_batch = 1},
                                {"tokens", "targets", "positions", "documents"})) {
      list.push_back(models::on_host(std::move(one)));
    }
    return list;
  }

  // The squared norm of the gradient of the mean loss over the micro-batches.
  double squared_norm(const std::vector<models::Batch>& batches) const {
    const auto model = models::build_model(config_, {.type = at::kDouble});
    const std::vector<nn::Parameter*> parameters = model->parameters();
    nn::initialize(parameters, config_.train.seed);
    nn::allocate_gradients(parameters, at::kDouble);
    double count = 0;
    for (const models::Batch& batch : batches) count += batch.counts.front();
    for (const models::Batch& batch : batches) {
      const models::Pass pass{.training = true, .seed = config_.train.seed, .step = 1, .gradient_scales = {1 / count}};
      const int64_t last = model->num_units() - 1;
      torch::autograd::backward(model->loss(last, model->forward(0, last, {}, batch, pass), batch, pass), {});
      nn::collect_autograd_gradients(parameters);
    }
    double sum = 0;
    for (const nn::Parameter* parameter : parameters) sum += parameter->gradient.square().sum().item<double>();
    return sum;
  }

 private:
  config::Config config_;
  std::unique_ptr<data::Source> source_;
};

class NoiseScaleAtLayout : public NoiseScaleOfRun, public testing::WithParamInterface<MeasuredLayout> {};

TEST_P(NoiseScaleAtLayout, IsThatOfSingleMicroBatchesInDoublePrecision) {
  const MeasuredLayout& layout = GetParam();
  Keys of_model;
  std::ranges::copy_if(layout.keys, std::back_inserter(of_model),
                       [](const std::string& key) { return key.starts_with("model."); });
  const PlainGradient plain(config_of(of_model));
  double small = 0;
  std::vector<models::Batch> all;
  for (int64_t rank = 0; rank < layout.data_ranks; ++rank) {
    const std::vector<models::Batch> own = plain.batches(rank, layout.data_ranks);
    small += plain.squared_norm({own.front()}) / static_cast<double>(layout.data_ranks);
    all.insert(all.end(), own.begin(), own.end());
  }
  ASSERT_EQ(std::ssize(all), samples);
  const double large = plain.squared_norm(all);
  const double signal = (samples * large - small) / (samples - 1);
  const double noise = (small - large) / (1 - 1.0 / samples);
  ASSERT_GT(signal, 0);
  const Outcome outcome = train(layout, 1);
  ASSERT_TRUE(outcome.steps.front().noise_scale.has_value());
  // Gradients in fp32 have errors of about 1e-6 of their norm, and the two terms are differences of at most 12 squares.
  EXPECT_NEAR(*outcome.steps.front().noise_scale, noise / signal, 1e-4 * noise / signal);
}

INSTANTIATE_TEST_SUITE_P(Train, NoiseScaleAtLayout, testing::ValuesIn(measured_layouts));

TEST_F(NoiseScaleOfRun, SameBitsWithEveryShardingOfTheSameRanks) {
  const std::vector<double> expected = scales(train({4, 4, {"layout.deterministic=true"}}, 5));
  EXPECT_GT(expected.back(), 0);
  for (const char* sharding : {"zero1", "zero2", "zero3", "node"}) {
    const MeasuredLayout layout{4, 4, {"layout.deterministic=true", fmt::format("layout.sharding={}", sharding)}};
    EXPECT_EQ(scales(train(layout, 5)), expected) << sharding;
  }
}

TEST_F(NoiseScaleOfRun, ChangesNoBitOfTheTraining) {
  for (const size_t number : {0u, 4u, 8u, 14u, 15u, 21u}) {
    SCOPED_TRACE(testing::PrintToString(measured_layouts[number]));
    const Outcome with = train(measured_layouts[number], 3);
    const Outcome without = train(measured_layouts[number], 3, {"train.noise_scale_every=0"});
    for (size_t rank = 0; rank < with.states.size(); ++rank) expect_equal(with.states[rank], without.states[rank]);
    EXPECT_EQ(without.trainer.contains("noise_scale"), false);
  }
}

TEST_F(NoiseScaleOfRun, IsContinuedBitForBitAndAtAnotherLayout) {
  const MeasuredLayout layout{2, 2, {"layout.sharding=zero1"}};
  const std::vector<double> whole = scales(train(layout, 6));
  const auto folder = folder_ / "half";
  const Outcome half = train(layout, 3, {}, {}, folder);
  const auto path = checkpoint::newest(folder).value();
  const Outcome rest = train(layout, 3, {}, path);
  EXPECT_EQ(scales(rest), std::vector<double>(whole.begin() + 3, whole.end()));
  for (const MeasuredLayout& other : {measured_layouts[0], measured_layouts[15], measured_layouts[8]}) {
    EXPECT_EQ(train(other, 0, {}, path).trainer.at("noise_scale"), half.trainer.at("noise_scale"));
  }
  EXPECT_EQ(half.trainer.at("noise_scale").at("measurements"), 3);
}

TEST_F(NoiseScaleOfRun, IsMeasuredInTheStepsAskedForAndWrittenThere) {
  const Outcome outcome = train({1, 1, {}}, 7, {"train.noise_scale_every=3", "train.skip_steps=[[6, 6]]"});
  for (const observe::StepMetrics& step : outcome.steps) EXPECT_EQ(step.noise_scale.has_value(), step.step == 3);
  EXPECT_EQ(outcome.trainer.at("noise_scale").at("measurements"), 1);
}

TEST_F(NoiseScaleOfRun, IsNotMeasuredOfOneMicroBatch) {
  EXPECT_EQ(scales(train({1, 1, {}}, 1, {"train.micro_batch=0"})), std::vector<double>{-1});
}

TEST_F(NoiseScaleOfRun, KeepsItsAveragesInAnOverflow) {
  const Outcome outcome = train({1, 1, {}}, 1, {"train.precision=fp16", "train.initial_loss_scale=16777216"});
  EXPECT_TRUE(std::isnan(outcome.steps.front().noise_scale.value()));
  EXPECT_FALSE(outcome.trainer.contains("noise_scale"));
  // The estimate does not depend on the loss scale.
  const Outcome fp16 = train({1, 1, {}}, 1, {"train.precision=fp16", "train.initial_loss_scale=1024"});
  const Outcome fp32 = train({1, 1, {}}, 1);
  // Gradients in fp16 have errors of about 1e-3.
  EXPECT_NEAR(scales(fp16).front(), scales(fp32).front(), 0.05 * scales(fp32).front());
}

TEST_F(NoiseScaleOfRun, RefusesAScheduleThatMixesMicroBatchesInTheTiedEmbedding) {
  const Keys vee = {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"};
  try {
    schedule::check_first_gradients(config_of(vee), 1);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("train.noise_scale_every = 1 needs the gradient of a step's first micro-batch"));
    EXPECT_THAT(error.what(), HasSubstr("layout.schedule = \"zb-v\" stage 0"));
    EXPECT_THAT(error.what(), HasSubstr("use schedule = \"1f1b\""));
  }
  schedule::check_first_gradients(config_of(vee), 12);  // one micro-batch on each rank
  for (const MeasuredLayout& layout : measured_layouts)
    schedule::check_first_gradients(config_of(layout.keys), layout.data_ranks);
  Keys run_keys = vee;
  run_keys.push_back("checkpoint.folder=" + (folder_ / "vee").string());
  EXPECT_THROW(run_training(config_of(run_keys), {.ranks = 2}), UserError);
}

}  // namespace
}  // namespace terrace::run
