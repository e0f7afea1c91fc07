// Tests the gradient noise scale of graph networks, whose losses divide by what a whole step counts and whose
// micro-batches differ in size, against the gradients of single micro-batches computed without a trainer.
#include "terrace/optim/noise_scale.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>
#include <optional>

#include "terrace/comm/threads/threads.h"
#include "terrace/data/data_of_family.h"
#include "terrace/run/run_training.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"
#include "tests/families/chains_of_atoms.h"
#include "tests/families/runs.h"

namespace terrace::models::gnn {
namespace {

constexpr int64_t step_samples = 12;

class GnnNoiseScale : public RunsOfFamily {
 protected:
  GnnNoiseScale() { prepare_chains_of_atoms((folder_ / "molecules").string(), 30); }

  config::Config config(const std::vector<std::string>& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 2\nwidth = 8\nradius = 3.0\n"
                    "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
                    "[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\nweight = 10.0\n"
                    "[data]\ntrain = [\"{0}/molecules\"]\n"
                    "[train]\nglobal_batch = {1}\nsteps = 4\nthreads = 1\ndevice = \"cpu\"\n"
                    "noise_scale_every = 1\n[optimizer]\nlearning_rate = 1e-2\n"
                    "[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string(), step_samples),
        "gnn.toml", models::families(), overrides);
  }
};

// A micro-batch's part of the gradient of a step in double precision, computed with the model alone.
class PlainParts {
 public:
  explicit PlainParts(const config::Config& config)
      : config_(config),
        source_(data::data_of_family(config).open(config)),
        names_(schedule::batch_tensors_of(schedule::unit_table(config))) {}

  std::vector<Batch> batches(int64_t rank, int64_t ranks) const {
    std::vector<Batch> list;
    const data::StepShare share{.step = 1,
                                .samples = step_samples,
                                .rank = rank,
                                .ranks = ranks,
                                .micro_batch = schedule::micro_batch_of(config_, ranks),
                                .budget = config_.train.micro_batch_sizes};
    for (data::MicroBatch& one : source_->micro_batches(share, names_)) list.push_back(on_host(std::move(one)));
    return list;
  }

  // The squared norm of the sum of the parts of these micro-batches; losses are divided by the step's counts.
  double squared_norm(const std::vector<Batch>& batches, const std::vector<double>& counts) const {
    const auto model = build_model(config_, {.type = at::kDouble});
    const std::vector<nn::Parameter*> parameters = model->parameters();
    nn::initialize(parameters, config_.train.seed);
    nn::initialize(model->buffers(), config_.train.seed);
    nn::allocate_gradients(parameters, at::kDouble);
    const Pass pass{.training = true,
                    .seed = config_.train.seed,
                    .step = 1,
                    .gradient_scales = gradient_scales(model->losses(), counts, 1)};
    for (const Batch& batch : batches) add_gradient(*model, batch, pass);
    double sum = 0;
    for (const nn::Parameter* parameter : parameters) sum += parameter->gradient.square().sum().item<double>();
    return sum;
  }

 private:
  static Tensors with_gradient(const Tensors& tensors) {
    Tensors list;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.requires_grad()) list.push_back(tensor);
    }
    return list;
  }

  void add_gradient(Model& model, const Batch& batch, const Pass& pass) const {
    // The units of the last segment are computed with the loss; with forces these are all.
    const schedule::Partition parts = schedule::partition(schedule::unit_table(config_), config_.layout);
    const int64_t last = parts.segments.back().units.begin;
    const Tensors hidden = last == 0 ? Tensors{} : model.forward(0, last, {}, batch, pass);
    Tensors input;
    for (const at::Tensor& tensor : hidden) {
      input.push_back(tensor.detach());
      if (tensor.requires_grad()) input.back().requires_grad_(true);
    }
    const Tensors losses = with_gradient(model.loss(last, input, batch, pass));
    if (!losses.empty()) {
      torch::autograd::backward(losses, {}, std::nullopt, false, leaves_of_loss(model, last, input));
    }
    Tensors roots, gradients;
    for (size_t i = 0; i < hidden.size(); ++i) {
      if (!hidden[i].requires_grad() || !input[i].grad().defined()) continue;
      roots.push_back(hidden[i]);
      gradients.push_back(input[i].grad());
    }
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    nn::collect_autograd_gradients(model.parameters());
  }

  config::Config config_;
  std::unique_ptr<data::Source> source_;
  data::TensorNames names_;
};

struct RanksOfLayout {
  int64_t ranks, data_ranks;
  std::vector<std::string> keys;
};

TEST_F(GnnNoiseScale, IsThatOfSingleMicroBatchesInDoublePrecision) {
  const std::vector<std::string> budget = {"train.micro_batch_sizes={atoms = 9, edges = 60}"};
  const std::vector<RanksOfLayout> layouts = {
      {1, 1, {"train.micro_batch=4"}},
      {1, 1, budget},
      {2, 2, {"layout.sharding=zero3", budget[0]}},
      {5, 5, {"layout.sharding=zero1", "train.micro_batch=1"}},
      {4, 4, {"layout.sharding=hybrid", "layout.shard_group=2", "train.micro_batch=2"}},
  };
  for (const RanksOfLayout& layout : layouts) {
    SCOPED_TRACE(testing::PrintToString(layout.keys));
    const config::Config settings = config(layout.keys);
    const PlainParts plain(settings);
    std::vector<std::vector<Batch>> of_ranks;
    std::vector<double> counts;
    std::vector<Batch> all;
    for (int64_t rank = 0; rank < layout.data_ranks; ++rank) {
      of_ranks.push_back(plain.batches(rank, layout.data_ranks));
      for (const Batch& batch : of_ranks.back()) {
        counts.resize(batch.counts.size());
        for (size_t term = 0; term < counts.size(); ++term) counts[term] += batch.counts[term];
        all.push_back(batch);
      }
    }
    double small = 0, inverse = 0, with_samples = 0;
    for (const std::vector<Batch>& own : of_ranks) {
      const auto samples = static_cast<double>(own.front().samples.numel());
      if (samples == 0) continue;
      small += plain.squared_norm({own.front()}, counts) * std::pow(step_samples / samples, 2);
      inverse += 1 / samples;
      ++with_samples;
    }
    optim::NoiseScale expected;
    expected.add({.small = small / with_samples,
                  .inverse_samples = inverse / with_samples,
                  .large = plain.squared_norm(all, counts),
                  .samples = step_samples});
    ASSERT_EQ(expected.measurements, 1);
    Json measured;
    comm::run_threads(layout.ranks, train::world_options(settings), [&](comm::World& world) {
      train::Trainer trainer(settings, {}, {}, &world);
      trainer.step();
      const Json state = trainer.state().trainer;
      if (world.rank() == 0) measured = state.at("noise_scale");
    });
    // Gradients in fp32, with second derivatives, have errors of about 1e-5 of their norm.
    const double tolerance = 1e-3 * (std::abs(expected.noise) / step_samples + std::abs(expected.signal));
    EXPECT_NEAR(measured.at("noise").get<double>(), expected.noise, step_samples * tolerance);
    EXPECT_NEAR(measured.at("signal").get<double>(), expected.signal, tolerance);
  }
}

}  // namespace
}  // namespace terrace::models::gnn
