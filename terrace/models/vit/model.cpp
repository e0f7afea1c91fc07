// The units of the model.
#include "terrace/models/vit/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <numbers>

#include "terrace/base/error.h"
#include "terrace/models/dropout_site.h"
#include "terrace/models/vit/initial_tables.h"
#include "terrace/models/vit/settings/vit_figures.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/dropout.h"
#include "terrace/ops/loss/loss_term.h"
#include "terrace/ops/positions.h"
#include "terrace/ops/products/linear.h"
#include "terrace/ops/trained_value.h"

namespace terrace::models::vit {
namespace {

constexpr double hours_of_lead_unit = 100;
// Halfway between climatology and persistence.
constexpr double initial_damping = 0.5;
constexpr ops::Activation activation = ops::Activation::gelu_erf;

nn::InitialValue normal_initial() { return nn::InitialValue::normal(initial_deviation); }

at::ScalarType wide_of(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// x [B, inputs] W^T + b in the type of x.
at::Tensor few_inputs(const nn::Linear& layer, const at::Tensor& x) {
  const at::Tensor weight = ops::trained_value(nn::weight_of(&layer.weight), x.scalar_type());
  return x.matmul(weight.t()).add(ops::trained_value(nn::weight_of(layer.bias), x.scalar_type()));
}

// The weights of the places of fields like `x` in a mean over the grid, [1, 1, H, 1] or, where values are missing, [B,
// V, H, W]. Their sum is 1, or 0 for a field without values.
at::Tensor weights_of_places(const Batch& batch, const at::Tensor& x) {
  const at::Tensor latitudes = batch["weights"].to(x.scalar_type()).view({1, 1, -1, 1});
  const at::Tensor& mask = batch["mask"];
  if (!mask.defined()) return latitudes.div(static_cast<double>(x.size(2) * x.size(3)));
  const at::Tensor counted = latitudes.mul(mask);
  return counted.div(counted.sum({2, 3}, /*keepdim=*/true).clamp_min(1e-6));
}

// x [N, C, H, W] -> [N, C, rows, P, columns, P] of patches P x P. The last row of patches repeats the last latitude.
at::Tensor divided_into_patches(const ModelConfig& config, const at::Tensor& x) {
  at::Tensor whole = x;
  if (const int64_t missing = config.padded_latitudes() - config.latitudes(); missing > 0) {
    const at::Tensor last = x.narrow(2, config.latitudes() - 1, 1);
    whole = at::cat({x, last.expand({x.size(0), x.size(1), missing, config.longitudes()})}, 2);
  }
  return whole.reshape({x.size(0), x.size(1), config.patch_rows(), config.patch, config.patch_columns(), config.patch});
}

BlockOptions block_options(const ModelConfig& config) {
  std::vector<double> drop_paths;
  for (int64_t layer = 0; layer < config.layers; ++layer) drop_paths.push_back(drop_path_of(config, layer));
  return {.layers = config.layers,
          .width = config.width,
          .ffn_width = config.ffn_width(),
          .heads = {.groups = config.heads, .head_dim = config.head_dim()},
          .visibility = ops::Visibility::all,
          .norm_epsilon = config.norm_epsilon,
          .normalises_heads = config.qk_norm,
          .head_norm = nn::Norm::Kind::layer,
          .activation = activation,
          .initial = normal_initial(),
          .initial_of_outputs = normal_initial(),
          .dropout = config.dropout,
          .inner_dropout = config.dropout,
          .drop_paths = drop_paths};
}

}  // namespace

EmbeddingUnit::EmbeddingUnit(const ModelConfig& config, const nn::Build& build)
    : config_(config),
      type_(build.type),
      wide_(wide_of(build.type)),
      tokens_(add_module<ChannelTokens>("tokens", config, build)),
      aggregation_(add_module<Aggregation>("aggregation", config, build)),
      positions_(add_parameter("positions", {config.places(), config.width},
                               sines_of_place(config.patch_columns(), config.width), /*decay=*/false, build)),
      lead_(config.lead_embedding ? &add_module<nn::Linear>("lead", 1, config.width, true, normal_initial(), build)
                                  : nullptr),
      time_(config.time_inputs ? &add_module<nn::Linear>("time", 4, config.width, true, normal_initial(), build)
                               : nullptr) {}

// inputs [B, C, H, W] -> [B, L, C P], the numbers of a patch row by row.
at::Tensor EmbeddingUnit::patches_of(const at::Tensor& inputs) const {
  const int64_t channels = config_.num_channels();
  TERRACE_CHECK(
      inputs.size(1) == channels && inputs.size(2) == config_.latitudes() && inputs.size(3) == config_.longitudes(),
      "inputs of {} channels on {} x {} places", inputs.size(1), inputs.size(2), inputs.size(3));
  return divided_into_patches(config_, inputs.to(wide_))
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({inputs.size(0), config_.places(), channels * config_.patch_size()});
}

// The sum that is added to the tokens: positions, lead and time, [1 or B, own L, D] in the wide type.
at::Tensor EmbeddingUnit::added(const Batch& batch, int64_t samples) const {
  const at::Tensor positions = ops::trained_value(nn::weight_of(&positions_), wide_).unsqueeze(0);
  at::Tensor sum = ops::own_positions(positions_.cut, positions);
  if (lead_ != nullptr) {
    const at::Tensor leads = batch["leads"].to(wide_).div(hours_of_lead_unit).view({samples, 1});
    sum = sum.add(few_inputs(*lead_, leads).unsqueeze(1));
  }
  if (time_ != nullptr) {
    const at::Tensor angles = batch["times"].to(wide_).mul(2 * std::numbers::pi);  // [B, 2]
    sum = sum.add(few_inputs(*time_, at::cat({angles.sin(), angles.cos()}, 1)).unsqueeze(1));
  }
  return sum;
}

at::Tensor EmbeddingUnit::forward(const Batch& batch, const Pass& pass) const {
  const at::Tensor all = patches_of(batch["inputs"]);
  const int64_t samples = all.size(0);
  const at::Tensor patches = all.view({samples, all.size(1), config_.num_channels(), config_.patch_size()});
  const at::Tensor x = aggregation_.forward(patches, tokens_, pass);  // [B, own L, D]
  return ops::dropout(x.add(added(batch, samples).to(type_)),
                      dropout_site_of(x, positions_.cut, config_.dropout, batch, pass), "embedding");
}

HeadUnit::HeadUnit(const ModelConfig& config, const nn::Build& build)
    : norm(add_module<nn::Norm>("norm", nn::Norm::Kind::layer, config.width, true, config.norm_epsilon, build)),
      hidden(add_hidden(config, build)),
      output(add_module<nn::Linear>("output", config.width, config.num_outputs() * config.patch_size(), true,
                                    normal_initial(), build)),
      damping(config.damps_anomaly()
                  ? &add_parameter("damping", {config.num_outputs(), config.latitudes(), config.longitudes()},
                                   nn::InitialValue::constant(initial_damping), /*decay=*/false, build)
                  : nullptr),
      config_(config) {}

std::vector<nn::Linear*> HeadUnit::add_hidden(const ModelConfig& config, const nn::Build& build) {
  std::vector<nn::Linear*> layers;
  for (int64_t i = 0; i < config.head_layers; ++i) {
    layers.push_back(&add_module<nn::Linear>(fmt::format("hidden.{}", i), config.width, config.width, true,
                                             normal_initial(), build));
  }
  return layers;
}

at::Tensor HeadUnit::forward(const at::Tensor& x, const Batch& batch) const {
  at::Tensor y = norm.forward(x);
  for (const nn::Linear* layer : hidden) y = ops::activated(layer->forward(y), activation);
  const at::Tensor patches = output.forward(y);
  return damping == nullptr ? patches : damped(batch).add(patches);
}

// The anomaly of the last input times its coefficients, of this rank's places, [B, own L, P outputs] in the wide type.
at::Tensor HeadUnit::damped(const Batch& batch) const {
  const at::ScalarType wide = wide_of(damping->value.scalar_type());
  const auto own = [&](const at::Tensor& fields) {
    const at::Tensor patches = divided_into_patches(config_, fields)
                                   .permute({0, 2, 4, 3, 5, 1})
                                   .reshape({fields.size(0), config_.places(), output.bias->value.size(0)});
    return ops::own_positions(output.weight.cut, patches);
  };
  const at::Tensor anomaly = batch["before"].to(wide).sub(batch["climatology_before"]);
  return own(anomaly).mul(own(ops::trained_value(nn::weight_of(damping), wide).unsqueeze(0)));
}

Vit::Vit(const ModelConfig& config, const nn::Build& build)
    : Transformer(config.layers, build),
      config_(config),
      embedding_(add_module<EmbeddingUnit>("embedding", config, build)),
      blocks_(add_module<Blocks>("blocks", block_options(config), build)),
      head_(add_module<HeadUnit>("head", config, build)) {}

at::Tensor Vit::forecast(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  const at::Tensor own = head_.forward(last_hidden(begin, input, batch, pass), batch);  // [B, own L, P V]
  const at::Tensor all = ops::all_positions(head_.output.weight.cut, own, "forecast").to(wide_of(build().type));
  const int64_t samples = all.size(0), outputs = config_.num_outputs(), patch = config_.patch;
  at::Tensor field = all.reshape({samples, config_.patch_rows(), config_.patch_columns(), patch, patch, outputs})
                         .permute({0, 5, 1, 3, 2, 4})
                         .reshape({samples, outputs, config_.padded_latitudes(), config_.longitudes()})
                         .narrow(2, 0, config_.latitudes());
  switch (config_.predicts) {
    case Predicts::field:
      return field;
    case Predicts::change:
      return field.add(batch["before"]);
    case Predicts::anomaly:
    case Predicts::damped_anomaly:
      break;
  }
  return field.add(batch["climatology"]);
}

Tensors Vit::loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  const at::Tensor& targets = batch["targets"];
  const at::Tensor error = forecast(begin, input, batch, pass).sub(targets);  // [B, V, H, W]
  const at::Tensor of_place = weights_of_places(batch, error);
  // The mean over the grid, [B, V].
  const auto mean = [&](const at::Tensor& x) { return x.mul(of_place).sum({2, 3}); };
  const at::Tensor squares = mean(error.square()), known = squares.detach();
  const double outputs = static_cast<double>(config_.num_outputs());
  const at::Tensor of_outputs = at::tensor(output_weights(config_), error.options().requires_grad(false)).div(outputs);
  // The sum over the samples, [V].
  const auto sum = [](const at::Tensor& x) { return x.sum(0).to(at::kFloat); };
  return {ops::loss_term(squares.mul(of_outputs).sum(), pass.gradient_scales.at(0)), sum(known.sqrt()),
          sum(mean(error.detach())), sum(known), sum(mean(batch["before"].sub(targets).square()))};
}

std::vector<LossTerm> Vit::losses() const {
  const int64_t outputs = config_.num_outputs();
  return {{.name = "field"},
          {.name = "rmse", .weight = 0, .numbers = outputs},
          {.name = "bias", .weight = 0, .numbers = outputs},
          {.name = "squares", .weight = 0, .numbers = outputs},
          {.name = "persistence", .weight = 0, .numbers = outputs}};
}

Outputs Vit::outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  return {{"forecast", forecast(begin, input, batch, pass).detach().to(at::kFloat)}};
}

std::vector<TensorShape> Vit::output_shapes(int64_t, const Batch& batch) const {
  return {{.sizes = {batch.samples.size(0), config_.places(), config_.width}, .type = build().type, .sequence_dim = 1}};
}

}  // namespace terrace::models::vit
