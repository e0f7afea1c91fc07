// Computes the units of a graph network.
#include "terrace/models/gnn/model.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/models/gnn/derivatives.h"
#include "terrace/models/gnn/output_loss.h"
#include "terrace/ops/loss/loss_term.h"

namespace terrace::models::gnn {

EmbeddingUnit::EmbeddingUnit(const ModelConfig& config, const nn::Build& build)
    : elements_(add_module<nn::Embedding>("elements", element_rows, config.width, element_rows,
                                          nn::InitialValue::normal(1.0), build)),
      atom_features_(config.atom_features.empty() ? nullptr
                                                  : &add_module<Linear>("atom_features", config.num_atom_features(),
                                                                        config.width, false, build)),
      charge_(config.charge.empty() ? nullptr : &add_module<Linear>("charge", 1, config.width, false, build)) {}

at::Tensor EmbeddingUnit::forward(const Batch& batch, const Pass& pass) const {
  at::Tensor x = elements_.forward(batch["species"], "element", pass.deferred);  // [N, F]
  if (atom_features_ != nullptr) x = x.add(atom_features_->forward(batch["atom_features"].to(x.scalar_type()), pass));
  if (charge_ == nullptr) return x;
  const at::Tensor of_atoms = batch["charges"].index_select(0, batch["graphs"]).unsqueeze(1);  // [N, 1]
  return x.add(charge_->forward(of_atoms.to(x.scalar_type()), pass));
}

Gnn::Gnn(const ModelConfig& config, const nn::Build& build)
    : config_(config),
      build_(build),
      embedding_(add_module<EmbeddingUnit>("embedding", config, build)),
      layers_(add_layers()),
      unpools_(add_unpools()),
      heads_(add_heads()) {}

std::vector<NetworkLayer*> Gnn::add_layers() {
  std::vector<NetworkLayer*> layers;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const LayerPlace place{.first = layer == 0, .last = config_.is_last(layer)};
    layers.push_back(&add_module<NetworkLayer>(fmt::format("layers.{}", layer), config_, config_.norm, place, build_));
  }
  return layers;
}

std::vector<Linear*> Gnn::add_unpools() {
  std::vector<Linear*> unpools;
  if (!config_.keeps_finer_states()) return unpools;
  for (int64_t level = 0; level < config_.coarse_levels(); ++level) {
    unpools.push_back(&add_module<Linear>(fmt::format("unpool.{}", level), config_.width, config_.width, true, build_));
  }
  return unpools;
}

std::vector<OutputHeads*> Gnn::add_heads() {
  if (config_.branches == 0) return {&add_module<OutputHeads>("head", config_, build_)};
  std::vector<OutputHeads*> heads;
  for (int64_t branch = 0; branch < config_.branches; ++branch) {
    heads.push_back(&add_module<OutputHeads>(fmt::format("head.{}", branch), config_, build_));
  }
  return heads;
}

std::vector<nn::Parameter*> Gnn::unit_parameters(int64_t unit) {
  if (unit == 0) return embedding_.parameters();
  if (unit + 1 < num_units()) return layers_.at(static_cast<size_t>(unit - 1))->parameters();
  std::vector<nn::Parameter*> list;
  for (Linear* unpool : unpools_) {
    for (nn::Parameter* parameter : unpool->parameters()) list.push_back(parameter);
  }
  for (OutputHeads* heads : heads_) {
    for (nn::Parameter* parameter : heads->parameters()) list.push_back(parameter);
  }
  return list;
}

std::vector<nn::Buffer*> Gnn::unit_buffers(int64_t unit) {
  if (unit == 0) return {};
  if (unit + 1 < num_units()) return layers_.at(static_cast<size_t>(unit - 1))->buffers();
  std::vector<nn::Buffer*> list;
  for (OutputHeads* heads : heads_) {
    for (nn::Buffer* buffer : heads->buffers()) list.push_back(buffer);
  }
  return list;
}

bool Gnn::has_vectors_behind(int64_t unit) const {
  return config_.conv == Conv::painn && unit > 0 && !config_.is_last(unit - 1);
}

bool Gnn::has_moved_behind(int64_t unit) const {
  return config_.conv == Conv::egnn && config_.equivariance && unit > 0 && !config_.is_last(unit - 1);
}

int64_t Gnn::level_behind(int64_t unit) const { return unit == 0 ? 0 : config_.level_of(unit - 1); }

// `input` are the tensors that the unit before `begin` gave.
Gnn::Work Gnn::begin_work(int64_t begin, const Tensors& input, const Batch& batch) const {
  Work work;
  if (begin > 0) {
    size_t next = 0;
    work.states.scalars = input.at(next++);
    if (has_vectors_behind(begin - 1)) work.states.vectors = input.at(next++);
    if (has_moved_behind(begin - 1)) work.states.moved = input.at(next++);
    if (config_.has_derivatives()) work.vectors = input.at(next++);
    for (; next < input.size(); ++next) work.finer.push_back(input[next]);
  } else if (config_.has_derivatives()) {
    work.vectors = vectors_of(config_, batch).detach().requires_grad_(true);
  }
  return work;
}

const Graphs& Gnn::graphs_at(int64_t level, Work& work, const Batch& batch, bool with_geometry) const {
  const auto found = work.levels.find(level);
  if (found != work.levels.end()) return found->second;
  at::Tensor vectors = work.vectors;
  if (!vectors.defined() && with_geometry) vectors = vectors_of(config_, batch, level);
  return work.levels.emplace(level, graphs_of(config_, batch, vectors, build_.type, level)).first->second;
}

// The states of the level below become those of the clusters.
void Gnn::begin_level(int64_t level, Work& work, const Batch& batch) const {
  if (config_.keeps_finer_states()) work.finer.push_back(work.states.scalars);
  work.states = {.scalars = segment_mean(work.states.scalars, members_of(batch, level))};
}

// Goes from level to level: adds to the states that nodes had before they were clustered a linear layer of the states
// that their cluster has now.
States Gnn::states_of_atoms(const Work& work, const Batch& batch, const Pass& pass) const {
  if (unpools_.empty()) return work.states;
  at::Tensor x = work.states.scalars;
  for (size_t level = unpools_.size(); level-- > 0;) {
    const at::Tensor of_clusters = unpools_[level]->forward(x, pass);
    x = work.finer.at(level).add(ops::gather(of_clusters, members_of(batch, static_cast<int64_t>(level) + 1)));
  }
  return {.scalars = x};
}

void Gnn::compute(int64_t begin, int64_t end, Work& work, const Batch& batch, const Pass& pass) const {
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      work.states = {.scalars = embedding_.forward(batch, pass)};
    } else {
      const int64_t level = level_behind(unit);
      if (level > level_behind(unit - 1)) begin_level(level, work, batch);
      work.states = layers_[static_cast<size_t>(unit - 1)]->forward(work.states, graphs_at(level, work, batch), pass);
    }
  }
}

Tensors Gnn::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin >= 0 && end < num_units(), "units {} to {} of {} have no forward", begin, end - 1, num_units());
  const at::AutoGradMode with_graph(at::GradMode::is_enabled() || config_.has_derivatives());
  Work work = begin_work(begin, input, batch);
  compute(begin, end, work, batch, pass);
  Tensors output = {work.states.scalars};
  if (has_vectors_behind(end - 1)) output.push_back(work.states.vectors);
  if (has_moved_behind(end - 1)) output.push_back(work.states.moved);
  if (config_.has_derivatives()) output.push_back(work.vectors);
  output.insert(output.end(), work.finer.begin(), work.finer.end());
  return output;
}

void Gnn::add_derivatives(const Work& work, const Graphs& graphs, const Batch& batch,
                          std::vector<OutputPrediction>& values) const {
  std::vector<at::Tensor> gradients(values.size());  // of each energy, computed once
  for (size_t i = 0; i < values.size(); ++i) {
    const OutputConfig& output = config_.outputs[i];
    if (!output.is_derivative()) continue;
    const auto energy = static_cast<size_t>(find_output(config_, output.derivative_of));
    at::Tensor& gradient = gradients[energy];
    if (!gradient.defined()) {
      gradient = gradient_by_vectors(values[energy].mean, work.vectors).to(build_.type);  // [E, 3]
    }
    values[i].mean = output.derivative == Derivative::forces
                         ? forces_of(gradient, graphs)
                         : stress_of(gradient, work.vectors, batch["volumes"], graphs);
  }
}

// The values of all outputs, and the graphs of the batch.
std::vector<OutputPrediction> Gnn::predicted(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass,
                                             Graphs& graphs) const {
  const at::AutoGradMode with_graph(at::GradMode::is_enabled() || config_.has_derivatives());
  Work work = begin_work(begin, input, batch);
  compute(begin, num_units() - 1, work, batch, pass);
  graphs = graphs_at(0, work, batch, config_.has_conv_heads());
  at::Tensor pooled;
  if (config_.has_pooled_heads()) {
    const Graphs& last = graphs_at(config_.coarse_levels(), work, batch, /*with_geometry=*/false);
    pooled = pooled_states(work.states.scalars, last, config_.pooling);
  }
  const States of_atoms = states_of_atoms(work, batch, pass);
  std::vector<Tensors> of_branches;
  for (const OutputHeads* heads : heads_) of_branches.push_back(heads->forward(of_atoms, pooled, graphs, pass));
  const Tensors given = of_own_branches(config_, of_branches, batch["branches"], graphs);
  std::vector<OutputPrediction> values = values_of(config_, given, graphs);
  add_derivatives(work, graphs, batch, values);
  return values;
}

Tensors Gnn::loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  Graphs graphs;
  const std::vector<OutputPrediction> values = predicted(begin, input, batch, pass, graphs);
  Tensors terms, figures;
  for (size_t i = 0; i < values.size(); ++i) {
    const OutputTerms output = output_terms(config_.outputs[i], values[i], batch, graphs);
    terms.push_back(ops::loss_term(output.loss, pass.gradient_scales.at(i)));
    figures.push_back(output.figures);
  }
  terms.insert(terms.end(), figures.begin(), figures.end());
  return terms;
}

std::vector<LossTerm> Gnn::losses() const {
  const std::vector<double> weights = output_weights(config_);
  std::vector<LossTerm> terms, figures;
  for (size_t i = 0; i < weights.size(); ++i) {
    terms.push_back({.name = config_.outputs[i].name, .weight = weights[i]});
    figures.push_back({.name = config_.outputs[i].name + " errors", .weight = 0, .numbers = 4});
  }
  terms.insert(terms.end(), figures.begin(), figures.end());
  return terms;
}

Outputs Gnn::outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  Graphs graphs;
  const std::vector<OutputPrediction> values = predicted(begin, input, batch, pass, graphs);
  Outputs outputs;
  for (size_t i = 0; i < values.size(); ++i) add_in_data_units(config_.outputs[i], values[i], batch, outputs);
  return outputs;
}

std::vector<TensorShape> Gnn::output_shapes(int64_t unit, const Batch& batch) const {
  const auto nodes_at = [&](int64_t level) { return batch.sizes.at(data::level_tensor(level, "atoms")); };
  const int64_t level = level_behind(unit), atoms = nodes_at(level);
  const int64_t edges = batch.sizes.at("edges") / (config_.computes_pairs() ? 2 : 1);
  std::vector<TensorShape> shapes = {{.sizes = {atoms, config_.width}, .type = build_.type}};
  if (has_vectors_behind(unit)) shapes.push_back({.sizes = {atoms, 3, config_.width}, .type = build_.type});
  if (has_moved_behind(unit)) shapes.push_back({.sizes = {edges, 3}, .type = build_.type});
  if (config_.has_derivatives()) shapes.push_back({.sizes = {edges, 3}, .type = at::kDouble});
  for (int64_t finer = 0; config_.keeps_finer_states() && finer < level; ++finer) {
    shapes.push_back({.sizes = {nodes_at(finer), config_.width}, .type = build_.type});
  }
  return shapes;
}

}  // namespace terrace::models::gnn
