// Tests the vision transformer: the aggregation of variables, initial values, recompute, deferred weight
// gradients, stochastic depth, forecasts and what is added to them.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/small_vits.h"

namespace terrace::models::vit {
namespace {

const Pass training{.training = true, .seed = 5, .step = 2, .gradient_scales = {0.1, 0, 0, 0, 0}};

struct VitOutcome {
  Tensors numbers;  // the terms, and the gradients of all parameters

  bool operator==(const VitOutcome& other) const {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!numbers[i].equal(other.numbers[i])) return false;
    }
    return true;
  }
};

VitOutcome outcome_of(const ModelConfig& config, at::ScalarType type, const Pass& pass, bool full = false,
                      const std::vector<Batch>& batches = {}) {
  const auto model = drawn(config, type);
  VitOutcome outcome;
  for (const Batch& batch : batches.empty() ? std::vector{some_fields(config, 3)} : batches) {
    const Tensors terms = terms_and_gradients(*model, batch, pass, full);
    if (outcome.numbers.empty()) {
      outcome.numbers = terms;
    } else {
      for (size_t i = 0; i < terms.size(); ++i) outcome.numbers[i] = outcome.numbers[i].add(terms[i]);
    }
  }
  if (pass.deferred) pass.deferred->run();
  for (const nn::Parameter* parameter : model->parameters()) outcome.numbers.push_back(parameter->gradient);
  return outcome;
}

ModelConfig dropping(ModelConfig config) {
  config.dropout = 0.2;
  config.drop_path = 0.4;
  return config;
}

// The patches of some fields, [N, C, P].
at::Tensor some_patches(const ModelConfig& config, int64_t rows, at::ScalarType type) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(4);
  return at::randn({rows, config.num_channels(), config.patch_size()}, generator, at::TensorOptions()).to(type);
}

struct Aggregated : nn::Module {
  explicit Aggregated(const ModelConfig& config, at::ScalarType type)
      : tokens(add_module<ChannelTokens>("tokens", config, nn::Build{.type = type})),
        aggregation(add_module<Aggregation>("aggregation", config, nn::Build{.type = type})) {
    nn::initialize(parameters(), 3);
    nn::allocate_gradients(parameters(), type);
  }
  ChannelTokens& tokens;
  Aggregation& aggregation;
};

TEST(Aggregation, QueryOfZerosGivesTheMeanOfTheProjectedTokens) {
  const ModelConfig config = small_vit();
  const Aggregated model(config, at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor patches = some_patches(config, 5, at::kDouble);
  const at::Tensor map = model.tokens.map(at::kDouble);  // [C, D, P + 1]
  at::Tensor mean = at::zeros_like(patches.select(1, 0).narrow(1, 0, 1).expand({5, config.width}));
  for (int64_t c = 0; c < config.num_channels(); ++c) {
    const at::Tensor token = at::linear(patches.select(1, c), map[c].narrow(1, 0, config.patch_size()))
                                 .add(map[c].select(1, config.patch_size()));
    mean = mean.add(token.div(static_cast<double>(config.num_channels())));
  }
  const at::Tensor values =
      at::linear(mean, model.aggregation.qkv_weight.value.view({3, 3, 8, 24}).select(1, 2).reshape({24, 24}));
  const at::Tensor query = model.aggregation.query.value;
  EXPECT_EQ(query.abs().max().item<double>(), 0);
  EXPECT_TRUE(model.aggregation.attend(patches, model.tokens, query).allclose(values, 1e-12, 1e-14));
}

// The places are computed in pieces, of which a large micro-batch has several.
TEST(Aggregation, PiecesGiveTheResultOfEachPlace) {
  ModelConfig config = small_vit();
  for (const bool normed : {false, true}) {
    config.qk_norm = normed;
    const Aggregated model(config, at::kFloat);
    const at::NoGradGuard no_grad;
    model.aggregation.query.value.fill_(0.3);
    // A row of 3 heads, 4 channels and 5 inputs takes 240 bytes of the 64 MiB of a piece.
    const int64_t rows = (int64_t{64} << 20) / 240 + 5;
    const at::Tensor patches = some_patches(config, rows, at::kFloat), query = model.aggregation.query.value;
    const at::Tensor whole = model.aggregation.attend(patches, model.tokens, query);
    const at::Tensor last = model.aggregation.attend(patches.narrow(0, rows - 9, 9), model.tokens, query);
    EXPECT_EQ(whole.size(0), rows);
    EXPECT_TRUE(whole.narrow(0, rows - 9, 9).allclose(last, 1e-4, 1e-6));
  }
}

TEST(Vit, InitialValuesAreThoseOfClimaX) {
  ModelConfig config = small_vit();
  const auto model = built(config, {});
  nn::initialize(model->parameters(), 1);
  const auto value = [&](const std::string& name) {
    for (const nn::Parameter* parameter : model->parameters()) {
      if (parameter->name == name) return parameter->value.detach();
    }
    ADD_FAILURE() << name;
    return at::Tensor();
  };
  const at::Tensor positions = value("embedding.positions");  // [2 * 3, 24]
  // The place in row 1 and column 2: 6 sines and 6 cosines of the column, then of the row.
  EXPECT_NEAR(positions[5][0].item<double>(), std::sin(2.0), 1e-6);
  EXPECT_NEAR(positions[5][1].item<double>(), std::sin(2.0 * std::pow(10000, -1.0 / 6)), 1e-6);
  EXPECT_NEAR(positions[5][6].item<double>(), std::cos(2.0), 1e-6);
  EXPECT_NEAR(positions[5][12].item<double>(), std::sin(1.0), 1e-6);
  EXPECT_NEAR(positions[5][18].item<double>(), std::cos(1.0), 1e-6);
  EXPECT_NEAR(value("embedding.tokens.variables")[3][13].item<double>(), std::cos(3 * std::pow(10000, -1.0 / 12)),
              1e-6);
  EXPECT_LE(value("embedding.tokens.bias").abs().max().item<double>(), 0.5);
  EXPECT_GT(value("embedding.tokens.bias").abs().max().item<double>(), 0.4);
  EXPECT_EQ(value("embedding.aggregation.query").abs().max().item<double>(), 0);
  const double bound = std::sqrt(6.0 / (4 * 24));
  EXPECT_LE(value("embedding.aggregation.qkv.weight").abs().max().item<double>(), bound);
  EXPECT_GT(value("embedding.aggregation.qkv.weight").abs().max().item<double>(), 0.95 * bound);
  EXPECT_NEAR(value("blocks.0.ffn.first.weight").std().item<double>(), 0.02, 0.001);
}

TEST(Vit, RecomputeAndDeferredWeightGradientsChangeNoBit) {
  for (const SmallVit& small : small_vits()) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& config : {small.config, dropping(small.config)}) {
        SCOPED_TRACE(small.name);
        Pass pass = training;
        const VitOutcome kept = outcome_of(config, type, pass);
        EXPECT_TRUE(std::isfinite(kept.numbers.front().item<double>()));
        EXPECT_TRUE(outcome_of(config, type, pass, /*full=*/true) == kept);
        pass.recompute_attention = true;
        EXPECT_TRUE(outcome_of(config, type, pass) == kept);
        ops::WeightGradientQueue queue;
        pass.deferred = &queue;
        EXPECT_TRUE(outcome_of(config, type, pass) == kept);
      }
    }
  }
}

TEST(Vit, DropoutAndStochasticDepthDependOnSampleAndStepAlone) {
  const ModelConfig config = dropping(small_vit());
  const Batch whole = some_fields(config, 4);
  std::vector<Batch> singles;
  for (int64_t i = 0; i < 4; ++i) {
    Batch one{.samples = whole.samples.narrow(0, i, 1)};
    for (const auto& [name, tensor] : whole.tensors) {
      one.tensors[name] = name == "weights" ? tensor : tensor.narrow(0, i, 1);
    }
    singles.push_back(one);
  }
  const VitOutcome together = outcome_of(config, at::kDouble, training, false, {whole});
  const VitOutcome apart = outcome_of(config, at::kDouble, training, false, singles);
  // In double precision another order of sums changes the last digits, another mask the first ones.
  for (size_t i = 5; i < together.numbers.size(); ++i) {
    const double size = std::max(1e-3, together.numbers[i].abs().max().item<double>());
    EXPECT_LE(apart.numbers[i].sub(together.numbers[i]).abs().max().item<double>(), 1e-9 * size) << i;
  }
  Pass later = training;
  later.step = 3;
  EXPECT_FALSE(outcome_of(config, at::kDouble, later, false, {whole}) == together);
}

// About half of many samples skip the last block, by its rate, and the others are scaled.
TEST(Vit, StochasticDepthSkipsSamplesWhole) {
  ModelConfig config = small_vit();
  config.layers = 3;
  config.drop_path = 0.5;
  EXPECT_EQ(drop_path_of(config, 0), 0);
  EXPECT_EQ(drop_path_of(config, 1), 0.25);
  const auto model = drawn(config, at::kFloat);
  const at::NoGradGuard no_grad;
  const int64_t samples = 400;
  Batch batch{.samples = at::arange(samples, at::TensorOptions().dtype(at::kLong))};
  const at::Tensor x = at::randn({1, config.places(), config.width}).expand({samples, -1, -1}).contiguous();
  const int64_t unit = 5;  // attention of the last layer
  const at::Tensor branch = model->forward(unit, unit + 1, {x}, batch, {}).front().sub(x);
  const at::Tensor dropped = model->forward(unit, unit + 1, {x}, batch, training).front().sub(x);
  int64_t skipped = 0;
  for (int64_t i = 0; i < samples; ++i) {
    if (dropped[i].abs().max().item<double>() == 0) {
      ++skipped;
    } else {
      EXPECT_TRUE(dropped[i].allclose(branch[i].mul(2), 1e-4, 1e-5)) << i;
    }
  }
  // Five standard deviations of 10.
  EXPECT_NEAR(static_cast<double>(skipped), 200, 50);
}

TEST(Vit, AddsTheLastInputOrTheClimatology) {
  ModelConfig config = small_vit();
  const Batch batch = some_fields(config, 2);
  const at::NoGradGuard no_grad;
  const at::Tensor field = drawn(config, at::kFloat)->outputs(0, {}, batch, {}).at("forecast");
  EXPECT_EQ(field.sizes().vec(), (std::vector<int64_t>{2, 2, 4, 6}));
  for (const auto& [predicts, name] : {std::pair{Predicts::change, "before"}, {Predicts::anomaly, "climatology"}}) {
    config.predicts = predicts;
    EXPECT_TRUE(drawn(config, at::kFloat)->outputs(0, {}, batch, {}).at("forecast").equal(field.add(batch[name])));
  }
}

TEST(Vit, AddsTheLastAnomalyTimesItsCoefficients) {
  ModelConfig config = small_vit();
  config.grid = {5, 6};  // of which the patch divides 4 latitudes
  const Batch batch = some_fields(config, 2);
  const at::NoGradGuard no_grad;
  const at::Tensor field = drawn(config, at::kFloat)->outputs(0, {}, batch, {}).at("forecast");
  config.predicts = Predicts::damped_anomaly;
  const auto model = drawn(config, at::kFloat);
  const nn::Parameter& damping = *model->unit_parameters(model->num_units() - 1).back();
  ASSERT_EQ(damping.name, "head.damping");
  ASSERT_EQ(damping.value.sizes().vec(), (std::vector<int64_t>{2, 5, 6}));
  const auto forecast = [&] { return model->outputs(0, {}, batch, {}).at("forecast"); };
  damping.value.zero_();
  EXPECT_TRUE(forecast().allclose(field.add(batch["climatology"]), 1e-6, 1e-6));
  // One place alone has the whole anomaly.
  damping.value[1][4][3].fill_(1);
  const at::Tensor expected = field.add(batch["climatology"]);
  const auto at_place = [](const at::Tensor& x) { return x.select(1, 1).select(1, 4).select(1, 3); };
  at_place(expected).add_(at_place(batch["before"].sub(batch["climatology_before"])));
  EXPECT_TRUE(forecast().allclose(expected, 1e-6, 1e-6));
  nn::initialize(model->parameters(), 1);
  EXPECT_TRUE(damping.value.eq(0.5).all().item<bool>());
}

// A rank computes an empty micro-batch in an evaluation that has no samples left for it.
TEST(Vit, TakesAnEmptyMicroBatchInEvaluations) {
  const at::NoGradGuard no_grad;
  for (const SmallVit& small : small_vits()) {
    const auto model = drawn(small.config, at::kFloat);
    const Batch batch = some_fields(small.config, 0);
    const Tensors terms = model->loss(model->num_units() - 1, {tokens_of(*model, batch, {})}, batch, {});
    ASSERT_EQ(terms.size(), model->losses().size());
    for (size_t i = 0; i < terms.size(); ++i) {
      EXPECT_EQ(terms[i].numel(), model->losses()[i].numbers);
      EXPECT_EQ(terms[i].abs().max().item<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace terrace::models::vit
