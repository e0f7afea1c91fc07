// Implements the modules.
#include "terrace/models/gnn/modules.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "terrace/base/error.h"
#include "terrace/ops/elements/batch_norm.h"
#include "terrace/ops/elements/silu.h"
#include "terrace/ops/elements/softplus.h"
#include "terrace/ops/products/linear.h"
#include "terrace/ops/products/product.h"
#include "terrace/ops/trained_value.h"

namespace terrace::models::gnn {
namespace {

constexpr double norm_epsilon = 1e-5, norm_momentum = 0.1;

// Adds the statistics of a step to the running ones without waiting for a GPU: statistics that are not to be added are
// masked.
void add_to_running(const ops::RowStatistics& step, const at::Tensor& mean, const at::Tensor& variance) {
  const at::NoGradGuard no_grad;
  const at::Tensor unbiased = step.variance.mul(step.rows.div(step.rows.sub(1.0).clamp_min(1.0)));
  const at::Tensor counts = step.rows.ge(2.0).logical_and(step.mean.isfinite()).logical_and(unbiased.isfinite());
  mean.copy_(at::where(counts, mean.lerp(step.mean.to(mean.scalar_type()), norm_momentum), mean));
  variance.copy_(at::where(counts, variance.lerp(unbiased.to(variance.scalar_type()), norm_momentum), variance));
}

nn::InitialValue uniform_to(double bound) { return nn::InitialValue::uniform(-bound, bound); }

double pytorch_bound(int64_t inputs) { return 1.0 / std::sqrt(static_cast<double>(inputs)); }

nn::InitialValue first_weight(int64_t inputs, int64_t outputs, double gain, FirstValues first) {
  const double glorot_bound = std::sqrt(6.0 / static_cast<double>(inputs + outputs));
  switch (first) {
    case FirstValues::opposite_pairs:
      return nn::InitialValue::opposite_rows(gain * glorot_bound, inputs);
    case FirstValues::pytorch:
      return uniform_to(gain * pytorch_bound(inputs));
    case FirstValues::glorot:
      break;
  }
  return uniform_to(gain * glorot_bound);
}

nn::InitialValue first_bias(int64_t inputs, FirstValues first) {
  return first == FirstValues::pytorch ? uniform_to(pytorch_bound(inputs)) : nn::InitialValue::constant(0.0);
}

}  // namespace

FirstValues first_values(const ModelConfig& config) {
  return config.follows_hydragnn() && config.conv == Conv::painn ? FirstValues::pytorch : FirstValues::glorot;
}

at::Tensor activated(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return x.relu();
    case Activation::silu:
      return ops::silu(x);
    case Activation::tanh:
      return x.tanh();
    case Activation::gelu:
      return at::gelu(x);
    case Activation::softplus:
      return ops::softplus(x);
    case Activation::shifted_softplus:
      return ops::softplus(x, std::numbers::ln2);
    case Activation::automatic:
      break;
  }
  TERRACE_CHECK(false, "an activation that was not derived");
  return {};
}

Linear::Linear(int64_t inputs, int64_t outputs, bool bias, const nn::Build& build, double gain, FirstValues first)
    : weight(add_parameter("weight", {outputs, inputs}, first_weight(inputs, outputs, gain, first), /*decay=*/true,
                           build)),
      bias(bias ? &add_parameter("bias", {outputs}, first_bias(inputs, first), /*decay=*/false, build) : nullptr) {
  weight.gradient_holds_sum = std::make_shared<bool>(true);
}

at::Tensor Linear::forward(const at::Tensor& x, const Pass& pass) const {
  const at::Tensor rows = x.reshape({x.numel() / x.size(-1), x.size(-1)});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.value.size(0);
  return ops::linear(rows, nn::weight_of(&weight), nn::weight_of(bias), pass.deferred).view(sizes);
}

std::vector<at::Tensor> Linear::scaled(const at::Tensor& inputs, int64_t parts, const Pass& pass) const {
  const auto trained = [&](const nn::Parameter* parameter) {
    return ops::trained_value(nn::weight_of(parameter), inputs.scalar_type(), pass.deferred);
  };
  const at::Tensor columns = trained(&weight), last = trained(bias).unsqueeze(1);
  std::vector<at::Tensor> results;
  for (const at::Tensor& rows : at::cat({columns, last}, 1).chunk(parts)) {
    results.push_back(ops::product(inputs, rows, weight.products));
  }
  return results;
}

TwoLayers::TwoLayers(int64_t inputs, int64_t hidden, int64_t outputs, Activation activation, const nn::Build& build,
                     double gain, FirstValues first)
    : activation_(activation),
      first_(add_module<Linear>("first", inputs, hidden, true, build, 1.0, first)),
      second_(add_module<Linear>("second", hidden, outputs, true, build, gain, first)) {}

at::Tensor TwoLayers::forward(const at::Tensor& x, const Pass& pass) const {
  return second_.forward(activated(first_.forward(x, pass), activation_), pass);
}

EdgeLinear::EdgeLinear(int64_t inputs, int64_t features, int64_t outputs, const nn::Build& build)
    : receiver_(add_module<Linear>("receiver", inputs, outputs, true, build)),
      sender_(add_module<Linear>("sender", inputs, outputs, false, build)),
      features_(features > 0 ? &add_module<Linear>("features", features, outputs, false, build) : nullptr) {}

at::Tensor EdgeLinear::forward(const at::Tensor& x, const at::Tensor& features, const Graphs& graphs,
                               const Pass& pass) const {
  const at::Tensor sum = ops::gather(receiver_.forward(x, pass), graphs.receivers)
                             .add(ops::gather(sender_.forward(x, pass), graphs.senders));
  return features_ == nullptr ? sum : sum.add(features_->forward(features, pass));
}

StateNorm::StateNorm(NormKind kind, int64_t width, const nn::Build& build)
    : weight_(add_parameter("weight", {width}, nn::InitialValue::constant(1.0), /*decay=*/false, build)),
      bias_(add_parameter("bias", {width}, nn::InitialValue::constant(0.0), /*decay=*/false, build)),
      mean_(kind == NormKind::batch ? &add_buffer("running_mean", {width}, nn::InitialValue::constant(0.0), build)
                                    : nullptr),
      variance_(kind == NormKind::batch
                    ? &add_buffer("running_variance", {width}, nn::InitialValue::constant(1.0), build)
                    : nullptr) {
  if (mean_ != nullptr) mean_->needs_data_ranks = true;
}

at::Tensor StateNorm::forward(const at::Tensor& x, const Pass& pass) const {
  const at::Tensor weight = ops::trained_value(nn::weight_of(&weight_), x.scalar_type(), pass.deferred);
  const at::Tensor bias = ops::trained_value(nn::weight_of(&bias_), x.scalar_type(), pass.deferred);
  if (mean_ == nullptr) return at::layer_norm(x, {x.size(-1)}, weight, bias, norm_epsilon);
  return of_batch(x, pass).mul(weight).add(bias);
}

at::Tensor StateNorm::of_batch(const at::Tensor& x, const Pass& pass) const {
  if (!pass.training) return x.sub(mean_->value).mul(variance_->value.add(norm_epsilon).rsqrt());
  const ops::NormalizedRows normalized = ops::normalized_rows(x, norm_epsilon, mean_->data_ranks);
  if (!pass.repeated) add_to_running(normalized.statistics, mean_->value, variance_->value);
  return normalized.x;
}

DenseLayers::DenseLayers(int64_t inputs, int64_t layers, int64_t width, int64_t outputs, Activation activation,
                         FirstValues first, const nn::Build& build)
    : activation_(activation) {
  for (int64_t i = 0; i < layers; ++i) {
    hidden_.push_back(
        &add_module<Linear>(fmt::format("hidden.{}", i), i == 0 ? inputs : width, width, true, build, 1.0, first));
  }
  const bool has_pairs = first == FirstValues::opposite_pairs;
  output_ = &add_module<Linear>("output", layers == 0 ? inputs : width, outputs, true, build, has_pairs ? 0.0 : 1.0,
                                has_pairs ? FirstValues::glorot : first);
}

at::Tensor DenseLayers::forward(at::Tensor x, const Pass& pass) const {
  for (const Linear* layer : hidden_) x = activated(layer->forward(x, pass), activation_);
  return output_->forward(x, pass);
}

}  // namespace terrace::models::gnn
