// Implements the layer of GATv2.
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/maximum.h>

#include <limits>

#include "terrace/models/gnn/conv_layer.h"
#include "terrace/ops/trained_value.h"

namespace terrace::models::gnn {
namespace {

constexpr double paper_slope = 0.2, hydragnn_slope = 0.05;  // below 0
constexpr double least_cutoff = 1e-12;                      // the least cutoff whose logarithm is taken

}  // namespace

Gatv2Layer::Gatv2Layer(const ModelConfig& config, LayerPlace, const nn::Build& build)
    : heads_(config.heads),
      head_width_(config.width / config.heads),
      slope_(config.reading == Reading::paper ? paper_slope : hydragnn_slope),
      receiver_(add_module<Linear>("receiver", config.width, config.width, true, build)),
      sender_(add_module<Linear>("sender", config.width, config.width, true, build)),
      features_(config.edge_columns() > 0
                    ? &add_module<Linear>("features", config.edge_columns(), config.width, false, build)
                    : nullptr),
      attention_(add_parameter("attention", {config.heads, config.width / config.heads}, nn::InitialValue::normal(0.1),
                               /*decay=*/true, build)),
      bias_(add_parameter("bias", {config.width}, nn::InitialValue::constant(0.0), /*decay=*/false, build)) {}

// [.., heads] of [.., F].
at::Tensor Gatv2Layer::scores(const at::Tensor& x, const Pass& pass) const {
  const at::Tensor attention = ops::trained_value(nn::weight_of(&attention_), x.scalar_type(), pass.deferred);
  const at::Tensor by_heads = at::leaky_relu(x, slope_).view({x.size(0), heads_, head_width_});
  return by_heads.mul(attention).sum(2);
}

// An atom's own score stands beside those of its edges without an edge for it.
States Gatv2Layer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const at::Tensor& x = states.scalars;
  const at::Tensor receiver = receiver_.forward(x, pass), sender = sender_.forward(x, pass);               // [N, F]
  at::Tensor of_edges = ops::gather(receiver, graphs.receivers).add(ops::gather(sender, graphs.senders));  // [E, F]
  at::Tensor of_atoms = receiver.add(sender);
  if (features_ != nullptr) {
    const at::Tensor features = features_->forward(graphs.geometry.features, pass);
    of_edges = of_edges.add(features);
    of_atoms = of_atoms.add(graphs.mean(features));
  }
  at::Tensor edge_scores = scores(of_edges, pass);       // [E, heads]
  const at::Tensor own_scores = scores(of_atoms, pass);  // [N, heads]
  // A factor of a share is a summand of its score, which keeps the largest exponential at 1.
  const at::Tensor& cutoff = graphs.geometry.cutoff;
  if (cutoff.defined()) edge_scores = edge_scores.add(cutoff.clamp_min(least_cutoff).log());
  // Any number that is subtracted from all scores of an atom leaves the shares as they are.
  const at::Tensor known = own_scores.detach();
  const at::Tensor largest = at::maximum(
      known, ops::segment_max(edge_scores.detach(), graphs.receivers)
                 .masked_fill(graphs.degrees(known.options()).eq(0), -std::numeric_limits<double>::infinity()));
  const at::Tensor edge_shares = edge_scores.sub(ops::gather(largest, graphs.receivers)).exp();
  const at::Tensor own_shares = own_scores.sub(largest).exp();
  // A message is multiplied by one share for each head, so heads are its last dimension here.
  const at::Tensor values = sender.view({x.size(0), heads_, head_width_}).transpose(1, 2).contiguous();
  const at::Tensor sums = ops::message_sum(values, edge_shares, graphs.pairs).add(values.mul(own_shares.unsqueeze(1)));
  const at::Tensor all_shares = ops::segment_sum(edge_shares, graphs.receivers).add(own_shares);
  return {.scalars = sums.div(all_shares.unsqueeze(1))
                         .transpose(1, 2)
                         .reshape({x.size(0), heads_ * head_width_})
                         .add(ops::trained_value(nn::weight_of(&bias_), x.scalar_type(), pass.deferred))};
}

}  // namespace terrace::models::gnn
