// Compares forecasts, loss, figures and every gradient of small models with the network of ClimaX in PyTorch.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <set>

#include "terrace/base/text/json.h"
#include "tests/models/small_vits.h"
#include "tests/pytorch/reference.h"

namespace terrace::models::vit {
namespace {

Json options_of_vit(const ModelConfig& config) {
  return {{"patch", config.patch},
          {"layers", config.layers},
          {"heads", config.heads},
          {"head_layers", config.head_layers},
          {"qk_norm", config.qk_norm},
          {"lead_embedding", config.lead_embedding},
          {"time_inputs", config.time_inputs},
          {"predicts", config::name_of(config.predicts)},
          {"norm_epsilon", config.norm_epsilon},
          {"output_weights", output_weights(config)}};
}

// Numbers that the type holds, so that both programs begin with the same ones.
Batch rounded_fields(const ModelConfig& config, int64_t samples, uint64_t seed, at::ScalarType type) {
  Batch batch = some_fields(config, samples, seed);
  for (auto& [name, tensor] : batch.tensors) tensor = tensor.to(type).to(at::kFloat);
  return batch;
}

testing::Tensors given(Vit& model, const Batch& batch, double scale) {
  testing::Tensors inputs = {{"upstream.loss", at::full({}, scale)}};
  for (const auto& [name, tensor] : batch.tensors) inputs[name] = tensor;
  for (const nn::Parameter* parameter : model.parameters()) inputs[parameter->name] = parameter->value;
  return inputs;
}

testing::Tensors computed(Vit& model, const Batch& batch, const Pass& pass) {
  testing::Tensors results;
  const Tensors terms = terms_and_gradients(model, batch, pass);
  results["loss"] = terms.at(0);
  results["rmse"] = terms.at(1);
  results["bias"] = terms.at(2);
  results["persistence"] = terms.at(4);
  const at::NoGradGuard no_grad;
  results["forecast"] = model.outputs(0, {}, batch, {}).at("forecast");
  for (const nn::Parameter* parameter : model.parameters()) {
    results["gradient." + parameter->name] = parameter->gradient;
  }
  return results;
}

// The fields of a batch have no gradient in terrace.
bool is_judged(const std::string& name, const Batch& batch) {
  return !name.starts_with("gradient.") || !batch.tensors.contains(name.substr(9));
}

class VitAgainstPyTorch : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(VitAgainstPyTorch, ForecastsLossAndGradientsAreAsAccurate) {
  testing::PyTorch& pytorch = testing::shared_pytorch();
  testing::ErrorTally tally(GetParam());
  for (const SmallVit& small : small_vits()) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto model = drawn(small.config, GetParam(), seed);
      const Batch batch = rounded_fields(small.config, 3, seed, GetParam());
      const Pass pass{.training = true, .gradient_scales = {1.0 / 4, 0, 0, 0, 0}};
      const auto ours = computed(*model, batch, pass);
      auto reference = pytorch.run("models/vit_cases.py", "vit", options_of_vit(small.config), GetParam(),
                                   given(*model, batch, pass.gradient_scales.front()));
      for (auto* results : {&reference.exact, &reference.theirs}) {
        std::erase_if(*results, [&](const auto& result) { return !is_judged(result.first, batch); });
      }
      testing::add_errors(tally, small.name, ours, reference);
    }
  }
  tally.expect_as_accurate();
}

INSTANTIATE_TEST_SUITE_P(Types, VitAgainstPyTorch, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// Results that even a model of doubles returns in fp32 are compared to their rounding.
TEST(VitInDouble, EqualsPyTorchTo1e10) {
  testing::PyTorch& pytorch = testing::shared_pytorch();
  const std::set<std::string> in_fp32 = {"forecast", "loss", "rmse", "bias", "persistence"};
  for (const SmallVit& small : small_vits()) {
    const auto model = drawn(small.config, at::kDouble);
    const Batch batch = some_fields(small.config, 3);
    const Pass pass{.training = true, .gradient_scales = {0.25, 0, 0, 0, 0}};
    const auto ours = computed(*model, batch, pass);
    const auto reference = pytorch.run("models/vit_cases.py", "vit", options_of_vit(small.config), at::kDouble,
                                       given(*model, batch, pass.gradient_scales.front()));
    for (const auto& [name, exact] : reference.exact) {
      if (!is_judged(name, batch)) continue;
      const double error = ours.at(name).to(at::kDouble).sub(exact).abs().max().item<double>();
      const double size = std::max(1.0, exact.abs().max().item<double>());
      EXPECT_LE(error, (in_fp32.contains(name) ? 1e-6 : 1e-10) * size) << small.name << " " << name;
    }
  }
}

}  // namespace
}  // namespace terrace::models::vit
