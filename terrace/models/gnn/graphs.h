// The graphs of a batch as the layers of a network read them: which atoms their edges join, and where these lie.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/model.h"
#include "terrace/ops/graphs/messages.h"
#include "terrace/ops/graphs/segments.h"

namespace terrace::models::gnn {

// Tensors that layers compute from the vectors of edges, in the model's type. Where the model computes pairs, E is
// their number and vectors are those of their first edges.
struct EdgeGeometry {
  at::Tensor vectors = {};   // [E, 3] from the receiver to the sender
  at::Tensor lengths = {};   // [E, 1]
  at::Tensor radial = {};    // [E, radial]; undefined where the layers have no radial functions
  at::Tensor cutoff = {};    // [E, 1]: falls from 1 to 0 at the radius; undefined with Cutoff::none
  at::Tensor cut = {};       // [E, radial + 1] of painn: radial functions times the cutoff, and the cutoff
  at::Tensor features = {};  // [E, ModelConfig::edge_columns()], radial functions and edge_features; undefined: none
};

// The graphs of a batch at one level. `atoms` are its nodes, which at the coarse levels are clusters.
struct Graphs {
  int64_t graphs = 0, atoms = 0;
  ops::Segments receivers = {}, senders = {};  // the atoms of edges
  ops::Segments of_atoms = {};                 // the graphs of atoms
  ops::Pairs pairs = {};                       // of edges; each edge is one where the model computes no pairs
  at::Tensor degree_means = {};                // [2], see data/graphs/graphs_request.h
  EdgeGeometry geometry = {};

  at::Tensor degrees(const at::TensorOptions& options) const;      // [N, 1]: edges that each atom receives
  at::Tensor atom_counts(const at::TensorOptions& options) const;  // [B, 1]
  // Multiplies what edges bring to atoms, x [E, K], by the cutoff, if there is one.
  at::Tensor cut_off(const at::Tensor& x) const;
  // The mean over the edges that each atom receives. With a cutoff c it is the sum of c x over 1 + the sum of c, so
  // that it does not jump where an edge appears with c = 0, not even the only one of an atom.
  at::Tensor mean(const at::Tensor& x) const;
  ops::Segments pairs_of_graphs() const;  // the graphs of pairs
};

// The vectors [E, 3], in double precision, of the edges of a level, or of the first edges of pairs where the model
// computes pairs.
at::Tensor vectors_of(const ModelConfig& config, const Batch& batch, int64_t level = 0);

// Puts the graphs of a level together. `vectors` are those of vectors_of(), perhaps with a graph of their own for
// derivatives; undefined: without geometry.
Graphs graphs_of(const ModelConfig& config, const Batch& batch, const at::Tensor& vectors, at::ScalarType type,
                 int64_t level = 0);

// The clusters that are the nodes of a level from 1 on, as segments of the nodes of the level below.
ops::Segments members_of(const Batch& batch, int64_t level);

// The lengths [E, 1] of vectors [E, 3]. Where a vector is 0 the derivatives are 0 too, of all orders, and never NaN.
at::Tensor lengths_of(const at::Tensor& vectors);

// Radial functions [E, K] of lengths [E, 1]: Gaussians exp(-(d - mu)^2 / (2 D^2)) about K centres from 0 to the radius
// with spacing D (SchNet, Schütt et al., arXiv 1706.08566), and sin(n pi d / radius) / d for n = 1 to K (PaiNN, Schütt
// et al., arXiv 2102.03150, after DimeNet), n pi / radius at 0.
at::Tensor gaussians(const at::Tensor& lengths, int64_t number, double radius);
at::Tensor sines(const at::Tensor& lengths, int64_t number, double radius);

// The cutoff (cos(pi d / radius) + 1) / 2 of lengths [E, 1] below the radius, else 0.
at::Tensor cosine_cutoff(const at::Tensor& lengths, double radius);

// Sums over segments divided by their numbers of elements; 0 of empty segments.
at::Tensor segment_mean(const at::Tensor& x, const ops::Segments& segments);
// Number of elements of each segment, [rows, 1].
at::Tensor segment_counts(const ops::Segments& segments, const at::TensorOptions& options);

}  // namespace terrace::models::gnn
