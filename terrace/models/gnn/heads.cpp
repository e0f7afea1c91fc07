// Implements the heads.
#include "terrace/models/gnn/heads.h"

#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

namespace terrace::models::gnn {
namespace {

constexpr double smallest_variance = 1e-6;

// A few units of ReLU, one layer behind another, easily are 0 for all inputs, and then never learn again.
FirstValues first_of_hidden(const ModelConfig& config) {
  const bool has_pairs = config.follows_hydragnn() && config.activation == Activation::relu;
  return has_pairs ? FirstValues::opposite_pairs : first_values(config);
}

}  // namespace

OutputHead::OutputHead(const ModelConfig& config, const OutputConfig& output, const nn::Build& build)
    : layers_(add_layers(config, output, build)), dense_(add_dense(*this, config, output, build)) {}

std::vector<NetworkLayer*> OutputHead::add_layers(const ModelConfig& config, const OutputConfig& output,
                                                  const nn::Build& build) {
  std::vector<NetworkLayer*> layers;
  if (output.head != HeadKind::conv) return layers;
  for (int64_t i = 0; i < output.layers; ++i) {
    const LayerPlace place{.last = i + 1 == output.layers};
    layers.push_back(
        &add_module<NetworkLayer>(fmt::format("layers.{}", i), config, config.norm_of_heads(), place, build));
  }
  return layers;
}

DenseLayers& OutputHead::add_dense(OutputHead& head, const ModelConfig& config, const OutputConfig& output,
                                   const nn::Build& build) {
  const bool shares = config.is_pooled(output) && config.shared_layers > 0;
  const int64_t layers = output.head == HeadKind::conv ? 0 : output.layers;
  return head.add_module<DenseLayers>("dense", shares ? config.shared_width : config.width, layers, output.width,
                                      output.head_columns(), config.activation,
                                      layers > 0 ? first_of_hidden(config) : first_values(config), build);
}

States OutputHead::own_states(const States& states, const Graphs& graphs, const Pass& pass) const {
  States own = states;
  for (const NetworkLayer* layer : layers_) own = layer->forward(own, graphs, pass);
  return own;
}

OutputHeads::OutputHeads(const ModelConfig& config, const nn::Build& build) : config_(config) {
  for (int64_t i = 0; i < config.shared_layers; ++i) {
    shared_.push_back(&add_module<Linear>(fmt::format("shared.{}", i), i == 0 ? config.width : config.shared_width,
                                          config.shared_width, true, build, 1.0, first_of_hidden(config)));
  }
  for (const OutputConfig& output : config.outputs) {
    heads_.push_back(output.is_derivative() ? nullptr : &add_module<OutputHead>(output.name, config, output, build));
  }
}

Tensors OutputHeads::forward(const States& states, const at::Tensor& pooled, const Graphs& graphs,
                             const Pass& pass) const {
  at::Tensor shared = pooled;
  for (const Linear* layer : shared_) shared = activated(layer->forward(shared, pass), config_.activation);
  Tensors given;
  for (size_t i = 0; i < heads_.size(); ++i) {
    const OutputHead* head = heads_[i];
    if (head == nullptr) {
      given.emplace_back();
    } else if (config_.is_pooled(config_.outputs[i])) {
      given.push_back(head->forward(shared, pass));
    } else {
      given.push_back(head->forward(head->own_states(states, graphs, pass).scalars, pass));
    }
  }
  return given;
}

at::Tensor pooled_states(const at::Tensor& states, const Graphs& graphs, Pooling pooling) {
  switch (pooling) {
    case Pooling::add:
      return ops::segment_sum(states, graphs.of_atoms);
    case Pooling::mean:
      return segment_mean(states, graphs.of_atoms);
    case Pooling::max:
      break;
  }
  const at::Tensor has_none = graphs.atom_counts(states.options().requires_grad(false)).eq(0);
  return ops::segment_max(states, graphs.of_atoms).masked_fill(has_none, 0.0);
}

Tensors of_own_branches(const ModelConfig& config, const std::vector<Tensors>& of_branches, const at::Tensor& branches,
                        const Graphs& graphs) {
  Tensors given = of_branches.front();
  for (size_t branch = 1; branch < of_branches.size(); ++branch) {
    const at::Tensor graph_is = branches.eq(static_cast<int64_t>(branch)).unsqueeze(1);  // [B, 1]
    const at::Tensor atom_is = graph_is.index_select(0, graphs.of_atoms.rows);           // [N, 1]
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) continue;
      const bool pooled = config.is_pooled(config.outputs[i]);
      given[i] = at::where(pooled ? graph_is : atom_is, of_branches[branch][i], given[i]);
    }
  }
  return given;
}

std::vector<OutputPrediction> values_of(const ModelConfig& config, const Tensors& given, const Graphs& graphs) {
  std::vector<OutputPrediction> values;
  for (size_t i = 0; i < given.size(); ++i) {
    const OutputConfig& output = config.outputs[i];
    OutputPrediction& value = values.emplace_back();
    if (output.is_derivative()) continue;
    value.mean = given[i].narrow(1, 0, output.columns);
    if (output.uncertain) value.variance = at::softplus(given[i].narrow(1, output.columns, output.columns));
    if (output.is_atomwise()) {
      value.mean = ops::segment_sum(value.mean, graphs.of_atoms);
      if (output.uncertain) value.variance = ops::segment_sum(value.variance, graphs.of_atoms);
    } else if (output.per_atom) {
      const at::Tensor atoms = graphs.atom_counts(value.mean.options().requires_grad(false));
      value.mean = value.mean.mul(atoms);
      if (output.uncertain) value.variance = value.variance.mul(atoms.square());
    }
    if (output.uncertain) value.variance = value.variance.add(smallest_variance);
  }
  return values;
}

}  // namespace terrace::models::gnn
