// Implements the layer of EGNN.
#include <ATen/ops/cat.h>

#include "terrace/models/gnn/conv_layer.h"

namespace terrace::models::gnn {
namespace {

constexpr double most_move = 100;
constexpr double move_gain = 1e-3;  // of the initial weights that make moves, as in the paper's program

}  // namespace

EgnnLayer::EgnnLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build)
    : activation_(config.activation),
      reading_(config.reading),
      edges_(add_module<EdgeLinear>("edges", config.width, 1 + config.edge_columns(), config.width, build)),
      message_(add_module<Linear>("message", config.width, config.width, true, build)),
      states_(add_module<Linear>("states", config.width, config.width, true, build)),
      sums_(add_module<Linear>("sums", config.width, config.width, false, build)),
      output_(add_module<Linear>("output", config.width, config.width, true, build)),
      move_hidden_(config.equivariance && !place.last
                       ? &add_module<Linear>("move.hidden", config.width, config.width, true, build)
                       : nullptr),
      move_(move_hidden_ != nullptr ? &add_module<Linear>("move.output", config.width, 1, false, build, move_gain)
                                    : nullptr) {}

// A vector of an edge changes by how its sender moves less how its receiver does.
at::Tensor EgnnLayer::moved(const at::Tensor& vectors, const at::Tensor& lengths, const at::Tensor& messages,
                            const Graphs& graphs, const Pass& pass) const {
  const at::Tensor sizes =
      move_->forward(activated(move_hidden_->forward(messages, pass), activation_), pass);  // [E, 1]
  const at::Tensor moves = reading_ == Reading::paper
                               ? vectors.mul(sizes).neg()
                               : vectors.div(lengths.add(1.0)).mul(sizes.tanh()).clamp(-most_move, most_move);
  const at::Tensor mean = graphs.mean(moves);  // [N, 3]
  return vectors.add(ops::gather(mean, graphs.senders)).sub(ops::gather(mean, graphs.receivers));
}

States EgnnLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const at::Tensor& x = states.scalars;
  const at::Tensor& vectors = states.moved.defined() ? states.moved : graphs.geometry.vectors;
  const at::Tensor lengths =
      states.moved.defined() && reading_ == Reading::hydragnn ? lengths_of(vectors) : graphs.geometry.lengths;
  at::Tensor features = reading_ == Reading::paper ? vectors.square().sum(1, /*keepdim=*/true) : lengths;
  if (graphs.geometry.features.defined()) features = at::cat({features, graphs.geometry.features}, 1);
  const at::Tensor hidden = activated(edges_.forward(x, features, graphs, pass), activation_);  // [E, F]
  const at::Tensor messages = activated(message_.forward(hidden, pass), activation_);           // [E, F]
  const at::Tensor received = ops::segment_sum(graphs.cut_off(messages), graphs.receivers);     // [N, F]
  const at::Tensor sums = sums_.forward(received, pass);
  const at::Tensor next = output_.forward(activated(states_.forward(x, pass).add(sums), activation_), pass);
  States result{.scalars = reading_ == Reading::paper ? x.add(next) : next};
  if (move_ != nullptr) result.moved = moved(vectors, lengths, messages, graphs, pass);
  return result;
}

}  // namespace terrace::models::gnn
