// The heads of a graph network, which make its outputs of the states of atoms.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "terrace/models/gnn/conv_layer.h"

namespace terrace::models::gnn {

// The prediction of an output, in units of the normalised property: C columns for each of the R graphs or atoms.
struct OutputPrediction {
  at::Tensor mean;      // [R, C]; undefined for derivatives
  at::Tensor variance;  // [R, C]; undefined unless the output is uncertain
};

// The head of one output.
class OutputHead : public nn::Module {
 public:
  OutputHead(const ModelConfig& config, const OutputConfig& output, const nn::Build& build);
  // Computes [R or N, head_columns()] from pooled states, or from those of atoms; for an atomwise output from those of
  // atoms.
  at::Tensor forward(const at::Tensor& states, const Pass& pass) const { return dense_.forward(states, pass); }
  // The layers that a conv head has for itself; the states as they are for other heads.
  States own_states(const States& states, const Graphs& graphs, const Pass& pass) const;

 private:
  std::vector<NetworkLayer*> add_layers(const ModelConfig& config, const OutputConfig& output, const nn::Build& build);
  static DenseLayers& add_dense(OutputHead& head, const ModelConfig& config, const OutputConfig& output,
                                const nn::Build& build);

  std::vector<NetworkLayer*> layers_;
  DenseLayers& dense_;
};

// The heads of all outputs, and the layers that the pooled ones share: a copy of them for each branch.
class OutputHeads : public nn::Module {
 public:
  OutputHeads(const ModelConfig& config, const nn::Build& build);
  // Returns [R, head_columns()] for each output, where R are the graphs of pooled outputs and the atoms of all others;
  // undefined for derivatives. `pooled` [B, F] is undefined where no head reads it.
  Tensors forward(const States& states, const at::Tensor& pooled, const Graphs& graphs, const Pass& pass) const;

 private:
  const ModelConfig config_;
  std::vector<Linear*> shared_;
  std::vector<OutputHead*> heads_;  // null for derivatives
};

// The atoms' states [N, F] pooled to graphs, [B, F]; 0 of a graph without atoms.
at::Tensor pooled_states(const at::Tensor& states, const Graphs& graphs, Pooling pooling);

// Puts together what the branches say: of each graph or atom, the one of its dataset. `branches` [B] int64, read only
// where there are several.
Tensors of_own_branches(const ModelConfig& config, const std::vector<Tensors>& of_branches, const at::Tensor& branches,
                        const Graphs& graphs);

// The values of the outputs that have heads, from what these give. The sum over atoms of an atomwise output, also of
// its variance; of other outputs per_atom the numbers of atoms times what the head says. A variance is 1e-6 more than
// what follows so of softplus.
std::vector<OutputPrediction> values_of(const ModelConfig& config, const Tensors& given, const Graphs& graphs);

}  // namespace terrace::models::gnn
