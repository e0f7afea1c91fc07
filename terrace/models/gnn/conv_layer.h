// The layers of graph networks. An edge brings a message from its sender j to its receiver i; e are the features of the
// edge, r its vector from i to j, d its length. Sums and means are over the edges that an atom receives. With a cutoff
// what is summed of an edge is multiplied by it: messages of EGNN and CGCNN, shares of GATv2, moves and means (see
// Graphs::mean).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/models/gnn/graphs.h"
#include "terrace/models/gnn/modules.h"

namespace terrace::models::gnn {

// The states that pass from layer to layer.
struct States {
  at::Tensor scalars = {};  // [N, F]
  // PaiNN's vectors of the atoms [N, 3, F]; undefined before the first layer, where they are 0, and behind the last.
  at::Tensor vectors = {};
  // The vectors of the edges [E, 3] after EGNN's layers moved the atoms; undefined where none did.
  at::Tensor moved = {};
};

// The place of a layer in the network.
struct LayerPlace {
  bool first = false;  // no layer before it has made vectors
  bool last = false;   // nothing reads vectors behind it
};

class ConvLayer : public nn::Module {
 public:
  virtual States forward(const States& states, const Graphs& graphs, const Pass& pass) const = 0;
};

// SchNet (Schütt et al., arXiv 1706.08566): w = MLP(radial) cutoff, x' = x + MLP(sum of (W x_j) * w), where the second
// MLP is linear, activation, linear. HydraGNN's x' is the linear layer alone, without x and the second linear one; with
// more filters than states they are scaled (ModelConfig::filter_step).
class SchNetLayer : public ConvLayer {
 public:
  SchNetLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  Activation activation_;
  double filter_scale_;  // the factor of the filters, for both linear layers beside them
  Linear& inputs_;
  TwoLayers& filter_;
  Linear& sums_;
  Linear* const output_;  // null with HydraGNN's reading
};

// PaiNN (Schütt et al., arXiv 2102.03150) with states s [N, F] and vectors v [N, 3, F]:
//   (p, q, t) = (W radial + b) cutoff * MLP(s_j),  s += sum of t,  v += sum of p v_j + q r / d
//   (g, h, k) = MLP([s, |V v|]),  s += h <U v, V v> + k,  v += g U v
// where |x| = sqrt(x^2 + 1e-8), which can be differentiated twice at 0. HydraGNN divides r by d twice, and ends a layer
// with linear, tanh, linear on s and a linear layer without bias on v; its MLPs have SiLU, whatever the activation
// behind the layers (before reading_version 2 that one). |V v| is then at most 100: as it is a factor of the next
// vectors, each layer would square large ones, and overflow.
class PaiNNLayer : public ConvLayer {
 public:
  PaiNNLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  States with_messages(const States& states, const Graphs& graphs, const Pass& pass) const;
  States updated(const States& states, const Pass& pass) const;

  int64_t width_;
  LayerPlace place_;
  bool divides_twice_, bounds_norms_;
  TwoLayers& context_;
  Linear& filter_;
  Linear& mixed_;  // rows of U, then of V
  TwoLayers& update_;
  TwoLayers* const ending_;      // the ending of s with HydraGNN's reading, else null
  Linear* const vector_ending_;  // the ending of v, null where it is left out
};

// EGNN (Satorras et al., arXiv 2102.09844): m = MLP(x_i, x_j, d^2, e), x' = x + MLP(x_i, sum of m); with equivariance
// an atom moves by the mean of -r MLP(m). HydraGNN's reads d in place of d^2, leaves x out and moves atoms by the mean
// of r / (d + 1) tanh(MLP(m)), of at most 100 in size.
class EgnnLayer : public ConvLayer {
 public:
  EgnnLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  at::Tensor moved(const at::Tensor& vectors, const at::Tensor& lengths, const at::Tensor& messages,
                   const Graphs& graphs, const Pass& pass) const;

  Activation activation_;
  Reading reading_;
  EdgeLinear& edges_;
  Linear& message_;
  Linear &states_, &sums_;  // layers of x_i and of the sum of m, whose results are added
  Linear& output_;
  Linear *const move_hidden_, *const move_;  // null where atoms do not move
};

// Principal neighbourhood aggregation (Corso et al., arXiv 2004.05718) as in PyTorch Geometric with one tower: mean,
// least, largest and standard deviation of m = linear(x_i, x_j, e), each times 1, log(d + 1) / a, a / log(max(d, 1) +
// 1) and d / b, where d is here the number of edges of i, and a and b are means over the training atoms. x' is a linear
// layer of x_i and these 16 F numbers. A variance is at least 1e-5, and the deviation of no more than that is 0.
class PnaLayer : public ConvLayer {
 public:
  PnaLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  EdgeLinear& messages_;
  Linear& output_;
};

// GIN (Xu et al., arXiv 1810.00826): x' = MLP((1 + epsilon) x_i + sum of x_j) with a trained epsilon, which starts at 0
// and in HydraGNN at 100.
class GinLayer : public ConvLayer {
 public:
  GinLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  nn::Parameter& epsilon_;  // [1]
  TwoLayers& output_;
};

// GATv2 (Brody et al., arXiv 2105.14491): scores a . LeakyReLU(W x_i + V x_j + C e) of each head, softmax over the
// edges of i and i itself, whose e is the mean of its edges', x' = the sum of V x_j times these shares, + b. Heads lie
// beside each other. An edge from an image of the atom to it is an edge like others. The slope of LeakyReLU is 0.2,
// with HydraGNN's reading 0.05.
class Gatv2Layer : public ConvLayer {
 public:
  Gatv2Layer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  at::Tensor scores(const at::Tensor& x, const Pass& pass) const;

  int64_t heads_, head_width_;
  double slope_;
  Linear &receiver_, &sender_;
  Linear* const features_;    // null: none
  nn::Parameter& attention_;  // [heads, F / heads]
  nn::Parameter& bias_;       // [F]
};

// CGCNN (Xie and Grossman, arXiv 1710.10324) without its batch norms: with z = [x_i, x_j, e],
// x' = x_i + sum of sigmoid(W z + b) * softplus(V z + c).
class CgcnnLayer : public ConvLayer {
 public:
  CgcnnLayer(const ModelConfig& config, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const override;

 private:
  EdgeLinear &gate_, &core_;
};

// A layer with the norm of the states behind it, if there is one, and then the activation: where the layer of the paper
// ends in a linear one without adding x, and with HydraGNN's reading always.
class NetworkLayer : public nn::Module {
 public:
  NetworkLayer(const ModelConfig& config, NormKind norm, LayerPlace place, const nn::Build& build);
  States forward(const States& states, const Graphs& graphs, const Pass& pass) const;

 private:
  ConvLayer& add_conv(const ModelConfig& config, LayerPlace place, const nn::Build& build);

  ConvLayer& conv_;
  StateNorm* const norm_;  // null: none
  Activation activation_;
  bool activates_;
};

}  // namespace terrace::models::gnn
