// Implements principal neighbourhood aggregation.
#include <ATen/ops/cat.h>

#include "terrace/models/gnn/conv_layer.h"

namespace terrace::models::gnn {
namespace {

constexpr int64_t aggregations = 4, scalers = 4;
constexpr double least_variance = 1e-5;

// Mean, least, largest and standard deviation, [N, 4 F], all 0 of atoms without edges. Deviations are taken from the
// mean before they are squared, as the difference of two large squares would lose the digits of a small one.
at::Tensor aggregated(const at::Tensor& messages, const Graphs& graphs, const at::Tensor& has_none) {
  const at::Tensor mean = segment_mean(messages, graphs.receivers);
  const at::Tensor deviations = messages.sub(ops::gather(mean, graphs.receivers));
  const at::Tensor variance = segment_mean(deviations.square(), graphs.receivers);
  const at::Tensor is_least = variance.detach().le(least_variance);
  const at::Tensor deviation = variance.masked_fill(is_least, 1.0).sqrt().masked_fill(is_least, 0.0);
  const at::Tensor least = ops::segment_min(messages, graphs.receivers).masked_fill(has_none, 0.0);
  const at::Tensor largest = ops::segment_max(messages, graphs.receivers).masked_fill(has_none, 0.0);
  return at::cat({mean, least, largest, deviation}, 1);
}

}  // namespace

PnaLayer::PnaLayer(const ModelConfig& config, LayerPlace, const nn::Build& build)
    : messages_(add_module<EdgeLinear>("messages", config.width, config.edge_columns(), config.width, build)),
      output_(add_module<Linear>("output", (1 + aggregations * scalers) * config.width, config.width, true, build)) {}

States PnaLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const at::Tensor& x = states.scalars;
  const at::Tensor degrees = graphs.degrees(x.options().requires_grad(false));  // [N, 1]
  const at::Tensor messages = messages_.forward(x, graphs.geometry.features, graphs, pass);
  const at::Tensor all = aggregated(messages, graphs, degrees.eq(0));  // [N, 4 F]
  const at::Tensor means = graphs.degree_means.to(x.scalar_type());
  const at::Tensor of_log = means.select(0, 0), of_degree = means.select(0, 1);
  const at::Tensor amplified = all.mul(degrees.add(1.0).log().div(of_log));
  const at::Tensor attenuated = all.mul(degrees.clamp_min(1.0).add(1.0).log().reciprocal().mul(of_log));
  const at::Tensor linear = all.mul(degrees.div(of_degree));
  return {.scalars = output_.forward(at::cat({x, all, amplified, attenuated, linear}, 1), pass)};
}

}  // namespace terrace::models::gnn
