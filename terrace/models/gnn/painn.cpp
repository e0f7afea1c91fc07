// Implements the layer of PaiNN.
#include <ATen/ops/cat.h>

#include <vector>

#include "terrace/models/gnn/conv_layer.h"

namespace terrace::models::gnn {
namespace {

constexpr double norm_square = 1e-8;  // added to the square of a norm
constexpr double most_norm = 100;     // the largest norm that the update reads

Activation activation_inside(const ModelConfig& config) {
  return config.follows_hydragnn() ? Activation::silu : config.activation;
}

}  // namespace

// Without vectors before it, a layer has no p; without any behind it, no g.
PaiNNLayer::PaiNNLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build)
    : width_(config.width),
      place_(place),
      divides_twice_(config.reading == Reading::hydragnn),
      bounds_norms_(config.follows_hydragnn()),
      context_(add_module<TwoLayers>("context", config.width, config.width, (place.first ? 2 : 3) * config.width,
                                     activation_inside(config), build, 1.0, first_values(config))),
      filter_(add_module<Linear>("filter", config.radial, (place.first ? 2 : 3) * config.width, true, build, 1.0,
                                 first_values(config))),
      mixed_(add_module<Linear>("mixed", config.width, 2 * config.width, false, build, 1.0, first_values(config))),
      update_(add_module<TwoLayers>("update", 2 * config.width, config.width, (place.last ? 2 : 3) * config.width,
                                    activation_inside(config), build, 1.0, first_values(config))),
      ending_(divides_twice_
                  ? &add_module<TwoLayers>("ending", config.width, config.width, config.width, Activation::tanh, build)
                  : nullptr),
      vector_ending_(divides_twice_ && !place.last ? &add_module<Linear>("vector_ending", config.width, config.width,
                                                                         false, build, 1.0, first_values(config))
                                                   : nullptr) {}

States PaiNNLayer::with_messages(const States& states, const Graphs& graphs, const Pass& pass) const {
  const EdgeGeometry& edges = graphs.geometry;
  const std::vector<at::Tensor> filters = filter_.scaled(edges.cut, place_.first ? 2 : 3, pass);            // [E, F]
  const std::vector<at::Tensor> context = context_.forward(states.scalars, pass).split(width_, /*dim=*/1);  // [N, F]
  // A vector of length 0 has no direction.
  const at::Tensor lengths = edges.lengths.masked_fill(edges.lengths.detach().eq(0), 1.0);
  const at::Tensor directions = edges.vectors.div(divides_twice_ ? lengths.square() : lengths);
  const at::Tensor t = ops::message_sum(context[0], filters[0], graphs.pairs);
  at::Tensor vectors = ops::directed_sum(context[1], filters[1], directions, graphs.pairs);  // [N, 3, F]
  if (!place_.first) {
    const at::Tensor sent = states.vectors.mul(context[2].unsqueeze(1));  // [N, 3, F]
    vectors = states.vectors.add(vectors).add(ops::message_sum(sent, filters[2], graphs.pairs));
  }
  return {.scalars = states.scalars.add(t), .vectors = vectors};
}

States PaiNNLayer::updated(const States& states, const Pass& pass) const {
  const std::vector<at::Tensor> mixed = mixed_.forward(states.vectors, pass).split(width_, /*dim=*/2);
  const at::Tensor &u = mixed[0], &v = mixed[1];                 // [N, 3, F]
  at::Tensor norms = v.square().sum(1).add(norm_square).sqrt();  // [N, F]
  if (bounds_norms_) norms = norms.clamp_max(most_norm);
  const std::vector<at::Tensor> update =
      update_.forward(at::cat({states.scalars, norms}, 1), pass).split(width_, /*dim=*/1);  // [N, F]
  const at::Tensor &h = update[0], &k = update[1];
  States result{.scalars = states.scalars.add(h.mul(u.mul(v).sum(1))).add(k)};
  if (!place_.last) result.vectors = states.vectors.add(update[2].unsqueeze(1).mul(u));
  return result;
}

States PaiNNLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  States result = updated(with_messages(states, graphs, pass), pass);
  if (ending_ != nullptr) result.scalars = ending_->forward(result.scalars, pass);
  if (vector_ending_ != nullptr) result.vectors = vector_ending_->forward(result.vectors, pass);
  return result;
}

}  // namespace terrace::models::gnn
