// A graph network for one device: the states of atoms begin as rows of a table of elements, layers pass messages along
// edges, and heads make outputs of graphs and atoms of them. docs/materials.md describes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "terrace/models/gnn/conv_layer.h"
#include "terrace/models/gnn/heads.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/model.h"
#include "terrace/nn/layers.h"

namespace terrace::models::gnn {

// The first states of atoms: the row of the element, and linear layers without bias of the atoms' features and of the
// graph's charge.
class EmbeddingUnit : public nn::Module {
 public:
  EmbeddingUnit(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const Batch& batch, const Pass& pass) const;  // [N, F]

 private:
  nn::Embedding& elements_;
  Linear *const atom_features_, *const charge_;  // null: none
};

// Batches have the tensors of data/graphs/graphs_request.h. The units are the embedding, the layers and the heads. From
// unit to unit pass the states of the atoms, where layers have them PaiNN's vectors and EGNN's moved vectors, and with
// derivatives also the vectors of the edges by which the energy is differentiated: all units then share one graph,
// which is built in evaluations too. With coarse levels the first layer of a level takes the means of the states of
// each cluster; behind it the states before pass on to the heads, finest level first, if these read states of atoms.
class Gnn : public Model {
 public:
  Gnn(const ModelConfig& config, const nn::Build& build);

  int64_t num_units() const override { return config_.layers + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  std::vector<nn::Buffer*> unit_buffers(int64_t unit) override;
  Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) override;
  // The terms of settings/gnn_figures.h.
  Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<LossTerm> losses() const override;
  bool has_other_leaves() const override { return config_.has_derivatives(); }
  // The outputs by name, in the units of the data: [B or N, columns] fp64; NAME_std for uncertain outputs.
  Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) override;
  std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const override;
  at::Device device() const override { return build_.device; }

 private:
  // The tensors that the units of one call share.
  struct Work {
    at::Tensor vectors = {};  // of the atoms' edges, with a graph of their own; undefined without derivatives
    std::map<int64_t, Graphs> levels = {};  // the levels that were read
    States states = {};
    Tensors finer = {};  // states of the levels before, if they are kept
  };

  std::vector<NetworkLayer*> add_layers();
  std::vector<Linear*> add_unpools();
  std::vector<OutputHeads*> add_heads();
  bool has_vectors_behind(int64_t unit) const;  // PaiNN's
  bool has_moved_behind(int64_t unit) const;    // EGNN's
  int64_t level_behind(int64_t unit) const;
  Work begin_work(int64_t begin, const Tensors& input, const Batch& batch) const;
  // The graphs of a level, without geometry only where no layer reads it.
  const Graphs& graphs_at(int64_t level, Work& work, const Batch& batch, bool with_geometry = true) const;
  void begin_level(int64_t level, Work& work, const Batch& batch) const;
  States states_of_atoms(const Work& work, const Batch& batch, const Pass& pass) const;
  void compute(int64_t begin, int64_t end, Work& work, const Batch& batch, const Pass& pass) const;
  std::vector<OutputPrediction> predicted(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass,
                                          Graphs& graphs) const;
  void add_derivatives(const Work& work, const Graphs& graphs, const Batch& batch,
                       std::vector<OutputPrediction>& values) const;

  ModelConfig config_;
  nn::Build build_;
  EmbeddingUnit& embedding_;
  std::vector<NetworkLayer*> layers_;
  std::vector<Linear*> unpools_;     // of the states of each coarse level, to be added to those of the level below
  std::vector<OutputHeads*> heads_;  // one for each branch
};

}  // namespace terrace::models::gnn
