// Compares logits, loss and every gradient of whole small models with a GPT written in PyTorch.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/models/gpt_options.h"
#include "tests/models/small_models.h"
#include "tests/pytorch/reference.h"

namespace terrace::models {
namespace {

testing::Tensors inputs_of(Model& model, const Batch& batch, double scale) {
  testing::Tensors inputs = {
      {"tokens", batch["tokens"]}, {"targets", batch["targets"]}, {"upstream.loss", at::full({}, scale)}};
  for (const char* name : {"documents", "positions"}) {
    if (batch[name].defined()) inputs[name] = batch[name];
  }
  for (const nn::Parameter* parameter : model.parameters()) inputs[parameter->name] = parameter->value;
  return inputs;
}

testing::Tensors results_of(Model& model, const Batch& batch, const Pass& pass) {
  testing::Tensors results;
  results["loss"] = loss_and_gradients(model, batch, pass);
  results["logits"] = logits_of(model, hidden_of(model, batch, {}));
  for (const nn::Parameter* parameter : model.parameters()) {
    results["gradient." + parameter->name] = parameter->gradient;
  }
  return results;
}

// Gives the experts' biases values by which others are chosen, and returns these by name.
Json drawn_biases(Model& model, uint64_t seed) {
  at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(31 + seed);
  Json by_name = Json::object();
  for (nn::Buffer* buffer : model.buffers()) {
    buffer->value.normal_(0, 0.1, generator);
    const float* values = buffer->value.const_data_ptr<float>();
    by_name[buffer->name] = std::vector<float>(values, values + buffer->value.numel());
  }
  return by_name;
}

class GptAgainstPyTorch : public ::testing::TestWithParam<at::ScalarType> {};

// All models are in one test, since every test is a process of its own and Python takes seconds to start.
TEST_P(GptAgainstPyTorch, LogitsLossAndGradientsAreAsAccurate) {
  testing::PyTorch& pytorch = testing::shared_pytorch();
  testing::ErrorTally tally(GetParam());
  for (const SmallModel& small : small_models()) {
    if (chooses_by_last_bits(small.config, GetParam())) continue;
    for (bool documents : {false, true}) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const auto model = initialized(small.config, GetParam(), seed);
        perturb(model->parameters());
        Json options = options_of(small.config);
        options["router_bias"] = drawn_biases(*model, seed);
        Batch batch = some_batch(small.config, 3, seed);
        if (documents) cut_into_documents(batch);
        const Pass pass{.training = true, .gradient_scales = {1.0 / 64}, .sample_scale = 1.0 / 64};
        const auto ours = results_of(*model, batch, pass);
        const auto inputs = inputs_of(*model, batch, pass.gradient_scales.front());
        const auto reference = pytorch.run("models/gpt_cases.py", "gpt", options, GetParam(), inputs);
        EXPECT_EQ(ours.size(), reference.exact.size());
        testing::add_errors(tally, small.name + (documents ? " with documents" : ""), ours, reference);
      }
    }
  }
  tally.expect_as_accurate();
}

INSTANTIATE_TEST_SUITE_P(Types, GptAgainstPyTorch, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

}  // namespace
}  // namespace terrace::models
