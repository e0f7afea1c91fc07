// Implements the layer of SchNet.
#include "terrace/models/gnn/conv_layer.h"

namespace terrace::models::gnn {

// HydraGNN's filters always have the paper's activation.
SchNetLayer::SchNetLayer(const ModelConfig& config, LayerPlace, const nn::Build& build)
    : activation_(config.activation),
      filter_scale_(config.filter_step() * config.filter_step()),
      inputs_(add_module<Linear>("inputs", config.width, config.filters, false, build)),
      filter_(
          add_module<TwoLayers>("filter", config.radial, config.filters, config.filters,
                                config.reading == Reading::hydragnn ? Activation::shifted_softplus : config.activation,
                                build, 1.0 / config.filter_step())),
      sums_(add_module<Linear>("sums", config.filters, config.width, true, build, 1.0 / config.filter_step())),
      output_(config.reading == Reading::hydragnn
                  ? nullptr
                  : &add_module<Linear>("output", config.width, config.width, true, build)) {}

States SchNetLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const EdgeGeometry& edges = graphs.geometry;
  const at::Tensor cutoff = filter_scale_ == 1.0 ? edges.cutoff : edges.cutoff.mul(filter_scale_);
  const at::Tensor filters = filter_.forward(edges.radial, pass).mul(cutoff);                    // [E, filters]
  const at::Tensor inputs = inputs_.forward(states.scalars, pass);                               // [N, filters]
  const at::Tensor sums = sums_.forward(ops::message_sum(inputs, filters, graphs.pairs), pass);  // [N, F]
  if (output_ == nullptr) return {.scalars = sums};
  return {.scalars = states.scalars.add(output_->forward(activated(sums, activation_), pass))};
}

}  // namespace terrace::models::gnn
