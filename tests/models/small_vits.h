// Small vision transformers and batches for the tests of models.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <string>
#include <vector>

#include "terrace/models/vit/cost/unit_table.h"
#include "terrace/models/vit/model.h"
#include "terrace/ops/recompute.h"
#include "tests/models/drawn_values.h"

namespace terrace::models::vit {

struct SmallVit {
  std::string name;
  ModelConfig config;
};

inline ModelConfig small_vit() {
  ModelConfig config{.variables = {"t", "u", "v"},
                     .outputs = {"t", "v"},
                     .grid = {4, 6},
                     .patch = 2,
                     .layers = 2,
                     .width = 24,
                     .heads = 3,
                     .dropout = 0,
                     .drop_path = 0};
  config.channels = {"t", "u", "v", "orography"};
  return config;
}

inline std::vector<SmallVit> small_vits() {
  ModelConfig plain = small_vit(), normed = plain, odd = plain, timed = plain, bare = plain, damped = plain;
  normed.qk_norm = true;
  odd.grid = {7, 9};
  odd.patch = 3;
  odd.loss_weights = {{"v", 0.25}};
  odd.mlp_ratio = 2.5;
  timed.time_inputs = true;
  timed.predicts = Predicts::change;
  bare.lead_embedding = false;
  bare.head_layers = 0;
  bare.predicts = Predicts::anomaly;
  bare.channels = bare.variables = bare.outputs = {"t"};
  bare.heads = 1;
  bare.layers = 1;
  bare.patch = 1;
  damped.grid = {5, 6};
  damped.predicts = Predicts::damped_anomaly;
  return {{"plain", plain},       {"qk_norm", normed}, {"odd rows", odd},
          {"time inputs", timed}, {"bare", bare},      {"damped anomaly", damped}};
}

inline std::unique_ptr<Vit> built(const ModelConfig& config, const nn::Build& build) {
  auto model = std::make_unique<Vit>(config, build);
  mark_parameters(*model, unit_table(config, {}), build.type);
  return model;
}

// A network with every value from a normal distribution, so that no term is zero.
inline std::unique_ptr<Vit> drawn(const ModelConfig& config, at::ScalarType type, uint64_t seed = 3) {
  auto model = built(config, {.type = type});
  draw_values(*model, type, seed, 0.2,
              [](nn::Parameter& parameter, const at::Tensor& noise) { parameter.value.add_(noise); });
  return model;
}

inline Batch some_fields(const ModelConfig& config, int64_t samples, uint64_t seed = 0) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(12 + seed);
  const auto fields = [&](int64_t count) {
    return at::randn({samples, count, config.latitudes(), config.longitudes()}, generator, at::TensorOptions());
  };
  Batch batch{.samples = at::arange(samples, at::TensorOptions().dtype(at::kLong))};
  batch.tensors["inputs"] = fields(config.num_channels());
  for (const char* name : {"targets", "before", "climatology", "climatology_before"}) {
    batch.tensors[name] = fields(config.num_outputs());
  }
  batch.tensors["leads"] = at::rand({samples}, generator, at::TensorOptions()).mul(160);
  batch.tensors["times"] = at::rand({samples, 2}, generator, at::TensorOptions());
  const at::Tensor weights = at::rand({config.latitudes()}, generator, at::TensorOptions()).add(0.2);
  batch.tensors["weights"] = weights.div(weights.mean());
  // One of the small models has missing values too.
  if (config.latitudes() % config.patch != 0) {
    batch.tensors["mask"] = fields(config.num_outputs()).gt(-1).to(at::kFloat);
  }
  return batch;
}

// The hidden states that enter the head. If `full` is set, whole layers are recomputed.
inline at::Tensor tokens_of(Vit& model, const Batch& batch, const Pass& pass, bool full = false) {
  at::Tensor hidden = model.forward(0, 1, {}, batch, pass).front();
  for (int64_t unit = 1; unit + 1 < model.num_units(); unit += 2) {
    const auto segment = [&model, unit, batch, pass](const at::Tensor& input) {
      return model.forward(unit, unit + 2, {input}, batch, pass).front();
    };
    hidden = full ? ops::recompute(segment, hidden) : segment(hidden);
  }
  return hidden;
}

// All terms; gradients are added to the parameters' buffers.
inline Tensors terms_and_gradients(Vit& model, const Batch& batch, const Pass& pass, bool full = false) {
  Tensors terms = model.loss(model.num_units() - 1, {tokens_of(model, batch, pass, full)}, batch, pass);
  torch::autograd::backward({terms.front()}, {});
  nn::collect_autograd_gradients(model.parameters());
  for (at::Tensor& term : terms) term = term.detach();
  return terms;
}

}  // namespace terrace::models::vit
