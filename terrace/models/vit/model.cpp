// The units of the model.
#include "terrace/models/vit/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <numbers>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/models/dropout_site.h"
#include "terrace/models/vit/initial_tables.h"
#include "terrace/models/vit/settings/vit_figures.h"
#include "terrace/ops/activation.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/dropout.h"
#include "terrace/ops/feed_forward.h"
#include "terrace/ops/head_norm.h"
#include "terrace/ops/linear.h"
#include "terrace/ops/loss_term.h"
#include "terrace/ops/positions.h"
#include "terrace/ops/recompute.h"
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

std::vector<nn::Parameter*> joined_parameters(nn::Module& first, nn::Module& second) {
  std::vector<nn::Parameter*> list = first.parameters();
  const std::vector<nn::Parameter*> more = second.parameters();
  list.insert(list.end(), more.begin(), more.end());
  return list;
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

Attention::Attention(const ModelConfig& config, int64_t, const nn::Build& build)
    : layout_{.groups = config.heads, .head_dim = config.head_dim()},
      kernels_(build.kernels.attention),
      epsilon_(config.norm_epsilon),
      joint_(add_module<nn::Linear>("qkv", config.width, layout_.columns(), true, normal_initial(), build)),
      output_(add_module<nn::Linear>("output", config.width, config.width, true, normal_initial(), build)),
      query_norm_(add_head_norm("query_norm", config, build)),
      key_norm_(add_head_norm("key_norm", config, build)) {}

nn::Norm* Attention::add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build) {
  if (!config.qk_norm) return nullptr;
  return &add_module<nn::Norm>(name, nn::Norm::Kind::layer, config.head_dim(), true, config.norm_epsilon, build);
}

at::Tensor Attention::forward(const at::Tensor& x, const Pass& pass) const {
  const auto core = [this](const at::Tensor& joint) {
    return ops::joint_attention(joint, layout_.part(joint.size(-1)), nullptr, {}, {}, kernels_, ops::Visibility::all);
  };
  at::Tensor joint = joint_.forward(x, pass.deferred);  // [B, L, 3 D]
  if (query_norm_ != nullptr) {
    // The bias of the keys' norm adds the same to the scores of all keys, which changes no probability.
    joint = ops::normalize_heads(
        joint, layout_.part(joint.size(-1)), {nn::weight_of(&query_norm_->weight), nn::weight_of(query_norm_->bias)},
        {nn::weight_of(&key_norm_->weight)}, {.centered = true, .epsilon = epsilon_}, pass.deferred);
  }
  const bool again = pass.training && pass.recompute_attention;
  const at::Tensor context = again ? ops::recompute(core, joint) : core(joint);  // [B, L, D]
  return output_.forward(context, pass.deferred);
}

FeedForward::FeedForward(const ModelConfig& config, int64_t layer, const nn::Build& build)
    : dropout_(config.dropout),
      columns_of_head_(config.ffn_width() / config.heads),
      name_(fmt::format("blocks.{}.ffn.inner", layer)),
      first_(add_module<nn::Linear>("first", config.width, config.ffn_width(), true, normal_initial(), build)),
      second_(add_module<nn::Linear>("second", config.ffn_width(), config.width, true, normal_initial(), build)) {}

at::Tensor FeedForward::forward(const at::Tensor& x, const Batch& batch, const Pass& pass) const {
  const ops::FeedForwardWeights weights{nn::weight_of(&first_.weight), nn::weight_of(first_.bias),
                                        nn::weight_of(&second_.weight), nn::weight_of(second_.bias)};
  ops::DropoutSite site = dropout_site(dropout_, batch, pass);
  std::optional<ops::InnerDropout> dropout;
  if (site.rate > 0.0) {
    // Between its layers a rank has all places and some columns, which are those of whole heads.
    site.first_head = first_.weight.mark.row_ranges.front().begin / columns_of_head_;
    dropout = {ops::draw_of(site, name_), weights.first.value.size(0) / columns_of_head_};
  }
  return ops::feed_forward(x, weights, activation, pass.deferred, dropout);
}

Block::Block(const ModelConfig& config, int64_t layer, const nn::Build& build)
    : dropout_(config.dropout),
      drop_path_(drop_path_of(config, layer)),
      name_(fmt::format("blocks.{}", layer)),
      attention_norm_(add_module<nn::Norm>("attention_norm", nn::Norm::Kind::layer, config.width, true,
                                           config.norm_epsilon, build)),
      attention_(add_module<Attention>("attention", config, layer, build)),
      ffn_norm_(
          add_module<nn::Norm>("ffn_norm", nn::Norm::Kind::layer, config.width, true, config.norm_epsilon, build)),
      ffn_(add_module<FeedForward>("ffn", config, layer, build)) {}

// The branch after dropout and stochastic depth, which drops all of a sample.
at::Tensor Block::dropped(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const {
  const std::string site = fmt::format("{}.{}", name_, name);
  const at::Tensor kept =
      ops::dropout(branch, dropout_site_of(branch, attention_norm_.weight.cut, dropout_, batch, pass), site);
  if (!pass.training || drop_path_ == 0.0) return kept;
  const ops::DropoutSite path = dropout_site(drop_path_, batch, pass);
  const at::Tensor ones = at::ones({branch.size(0), 1, 1}, branch.options().requires_grad(false));
  return kept.mul(ops::dropout(ones, path, site + ".path"));
}

ops::ResidualStream Block::attend(ops::ResidualStream x, const Batch& batch, const Pass& pass) const {
  return x +
         dropped(attention_.forward(attention_norm_.forward(x, pass.deferred), pass), "attention.output", batch, pass);
}

ops::ResidualStream Block::feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const {
  return x + dropped(ffn_.forward(ffn_norm_.forward(x, pass.deferred), batch, pass), "ffn", batch, pass);
}

std::vector<nn::Parameter*> Block::attention_parameters() { return joined_parameters(attention_norm_, attention_); }

std::vector<nn::Parameter*> Block::ffn_parameters() { return joined_parameters(ffn_norm_, ffn_); }

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
    : config_(config),
      build_(build),
      embedding_(add_module<EmbeddingUnit>("embedding", config, build)),
      blocks_(add_blocks()),
      head_(add_module<HeadUnit>("head", config, build)) {}

std::vector<Block*> Vit::add_blocks() {
  std::vector<Block*> blocks;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks.push_back(&add_module<Block>(fmt::format("blocks.{}", layer), config_, layer, build_));
  }
  return blocks;
}

std::vector<nn::Parameter*> Vit::unit_parameters(int64_t unit) {
  if (unit == 0) return embedding_.parameters();
  if (unit + 1 == num_units()) return head_.parameters();
  Block& block = *blocks_.at(static_cast<size_t>(layer_of(unit)));
  return is_attention(unit) ? block.attention_parameters() : block.ffn_parameters();
}

Tensors Vit::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin >= 0 && end < num_units(), "units {} to {} of {} have no forward", begin, end - 1, num_units());
  ops::ResidualStream x{input.empty() ? at::Tensor() : input.front()};  // [B, L, D]
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      x = {embedding_.forward(batch, pass)};
      continue;
    }
    const Block& block = *blocks_[static_cast<size_t>(layer_of(unit))];
    x = is_attention(unit) ? block.attend(std::move(x), batch, pass) : block.feed_forward(std::move(x), batch, pass);
  }
  return {x.sum()};
}

at::Tensor Vit::forecast(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  const Tensors x = begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass);
  const at::Tensor own = head_.forward(x.front(), batch);  // [B, own L, P V]
  const at::Tensor all = ops::all_positions(head_.output.weight.cut, own, "forecast").to(wide_of(build_.type));
  const int64_t samples = all.size(0), outputs = config_.num_outputs(), patch = config_.patch;
  const at::Tensor field = all.reshape({samples, config_.patch_rows(), config_.patch_columns(), patch, patch, outputs})
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
  return {{.sizes = {batch.samples.size(0), config_.places(), config_.width}, .type = build_.type, .sequence_dim = 1}};
}

}  // namespace terrace::models::vit
