// The modules that the layers and heads of graph networks are made of. All can be differentiated twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/models/gnn/graphs.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/nn/layers.h"

namespace terrace::models::gnn {

// The shifted softplus is softplus(x) - ln 2, which is 0 at 0.
at::Tensor activated(const at::Tensor& x, Activation activation);

// opposite_pairs: rows 2 k + 1 of W begin as the opposites of rows 2 k, so that of each pair one unit of a ReLU behind
// the layer is above 0 whatever x is (after the mirrored values of Balduzzi et al., arXiv 1702.08591).
// pytorch: W and b begin uniform up to 1 / sqrt(inputs), as PyTorch's linear layers do.
enum class FirstValues { glorot, opposite_pairs, pytorch };

// The first values of linear layers without ReLU behind them. HydraGNN's painn needs PyTorch's smaller values: with
// Glorot's the vectors, of which every layer takes products, soon overflow at high learning rates.
FirstValues first_values(const ModelConfig& config);

// y = x W^T + b with the initial values of Glorot and Bengio (2010), unless others are asked for: W uniform up to
// sqrt(6 / (inputs + outputs)), times `gain`, and b 0.
class Linear : public nn::Module {
 public:
  Linear(int64_t inputs, int64_t outputs, bool bias, const nn::Build& build, double gain = 1.0,
         FirstValues first = FirstValues::glorot);
  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;
  // (x W^T + b) s of [x s, s], for a number s of each row: equal parts of the columns, each [E, outputs / parts], of
  // which no product with s is made.
  std::vector<at::Tensor> scaled(const at::Tensor& inputs, int64_t parts, const Pass& pass) const;

  nn::Parameter& weight;
  nn::Parameter* const bias;  // null: none
};

// Linear, activation, linear.
class TwoLayers : public nn::Module {
 public:
  // The gain is that of the second one.
  TwoLayers(int64_t inputs, int64_t hidden, int64_t outputs, Activation activation, const nn::Build& build,
            double gain = 1.0, FirstValues first = FirstValues::glorot);
  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;

 private:
  Activation activation_;
  Linear &first_, &second_;
};

// Computes, for each edge, A x_receiver + B x_sender + C features + b, [E, outputs], of x [N, inputs]: a linear layer
// of the three beside each other, whose products with the states are computed once for each atom.
class EdgeLinear : public nn::Module {
 public:
  // Leaves C out where there are no features.
  EdgeLinear(int64_t inputs, int64_t features, int64_t outputs, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& features, const Graphs& graphs, const Pass& pass) const;

 private:
  Linear &receiver_, &sender_;
  Linear* const features_;  // null: none
};

// LayerNorm over the columns of states, or batch norm (Ioffe and Szegedy, arXiv 1502.03167) over atoms: in training
// those of the micro-batches of all data-parallel ranks, which must make the call together; otherwise with the running
// statistics, to which a step adds a tenth of its own, the variance divided by the number of atoms less 1. A step with
// fewer than two atoms, or with statistics that are not finite, leaves them alone.
class StateNorm : public nn::Module {
 public:
  StateNorm(NormKind kind, int64_t width, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;  // [N, F] of [N, F]

 private:
  at::Tensor of_batch(const at::Tensor& x, const Pass& pass) const;

  nn::Parameter &weight_, &bias_;
  nn::Buffer *const mean_, *const variance_;  // [F]: running statistics; null with LayerNorm
};

// Hidden layers with activations, of `width`, then a linear layer. With opposite pairs in the hidden layers the last
// one begins at 0, so that the first steps do not push all units of a layer to one side.
class DenseLayers : public nn::Module {
 public:
  DenseLayers(int64_t inputs, int64_t layers, int64_t width, int64_t outputs, Activation activation, FirstValues first,
              const nn::Build& build);
  at::Tensor forward(at::Tensor x, const Pass& pass) const;

 private:
  Activation activation_;
  std::vector<Linear*> hidden_;
  Linear* output_;
};

}  // namespace terrace::models::gnn
