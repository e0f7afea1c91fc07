// Computes lengths, radial functions and cutoffs of edges.
#include "terrace/models/gnn/graphs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/where.h>

#include <numbers>
#include <vector>

#include "terrace/data/graphs/graphs_request.h"

namespace terrace::models::gnn {
namespace {

using data::level_tensor;

// The places where lengths [E, 1] are 0, and the lengths with 1 in these places.
struct SafeLengths {
  at::Tensor is_zero, lengths;
};

SafeLengths safe(const at::Tensor& lengths) {
  const at::Tensor is_zero = lengths.detach().eq(0);
  return {is_zero, lengths.masked_fill(is_zero, 1.0)};
}

}  // namespace

at::Tensor lengths_of(const at::Tensor& vectors) {
  const at::Tensor squares = vectors.square().sum(1, /*keepdim=*/true);
  const at::Tensor is_zero = squares.detach().eq(0);
  return squares.masked_fill(is_zero, 1.0).sqrt().masked_fill(is_zero, 0.0);
}

at::Tensor gaussians(const at::Tensor& lengths, int64_t number, double radius) {
  const double spacing = radius / static_cast<double>(number - 1);
  const at::Tensor centres = at::arange(number, lengths.options().requires_grad(false)).mul(spacing);
  // Ten times as fast as with exponents whose exponentials are subnormal or 0 in fp32; what is changed is below 2e-35.
  constexpr double least_exponent = -80;
  return lengths.sub(centres).square().mul(-0.5 / (spacing * spacing)).clamp_min(least_exponent).exp();
}

at::Tensor sines(const at::Tensor& lengths, int64_t number, double radius) {
  const auto [is_zero, denominators] = safe(lengths);
  const at::Tensor frequencies =
      at::arange(1, number + 1, lengths.options().requires_grad(false)).mul(std::numbers::pi / radius);
  return at::where(is_zero, frequencies.unsqueeze(0), denominators.mul(frequencies).sin().div(denominators));
}

at::Tensor cosine_cutoff(const at::Tensor& lengths, double radius) {
  return lengths.mul(std::numbers::pi / radius).cos().add(1.0).mul(0.5).masked_fill(lengths.detach().ge(radius), 0.0);
}

at::Tensor segment_counts(const ops::Segments& segments, const at::TensorOptions& options) {
  const int64_t rows = segments.num_rows();
  return segments.first.narrow(0, 1, rows).sub(segments.first.narrow(0, 0, rows)).to(options).unsqueeze(1);
}

at::Tensor segment_mean(const at::Tensor& x, const ops::Segments& segments) {
  const at::Tensor counts = segment_counts(segments, x.options().requires_grad(false)).clamp_min(1.0);
  return ops::segment_sum(x, segments).div(counts);
}

at::Tensor Graphs::degrees(const at::TensorOptions& options) const { return segment_counts(receivers, options); }
at::Tensor Graphs::atom_counts(const at::TensorOptions& options) const { return segment_counts(of_atoms, options); }

at::Tensor Graphs::cut_off(const at::Tensor& x) const { return geometry.cutoff.defined() ? x.mul(geometry.cutoff) : x; }

at::Tensor Graphs::mean(const at::Tensor& x) const {
  if (!geometry.cutoff.defined()) return segment_mean(x, receivers);
  return ops::segment_sum(cut_off(x), receivers).div(ops::segment_sum(geometry.cutoff, receivers).add(1.0));
}

// The edges of an atom lie together, and so do those of a graph and its pairs, of which each has two.
ops::Segments Graphs::pairs_of_graphs() const {
  const at::Tensor first = receivers.first.index_select(0, of_atoms.first);
  if (!pairs.mutual()) return {.rows = of_atoms.rows.index_select(0, receivers.rows), .order = {}, .first = first};
  return {.rows = of_atoms.rows.index_select(0, receivers.rows.index_select(0, pairs.first_edges)),
          .order = {},
          .first = first.div(2, "trunc")};
}

at::Tensor vectors_of(const ModelConfig& config, const Batch& batch, int64_t level) {
  const at::Tensor& vectors = batch[level_tensor(level, "vectors")];
  return config.computes_pairs() ? vectors.index_select(0, batch[level_tensor(level, "first_edges")]) : vectors;
}

ops::Segments members_of(const Batch& batch, int64_t level) {
  return {batch[level_tensor(level, "clusters")], batch[level_tensor(level, "members")],
          batch[level_tensor(level, "first_member")]};
}

Graphs graphs_of(const ModelConfig& config, const Batch& batch, const at::Tensor& vectors, at::ScalarType type,
                 int64_t level) {
  const auto tensor = [&](const char* name) { return batch[level_tensor(level, name)]; };
  Graphs graphs{.graphs = tensor("first_atom").size(0) - 1,
                .atoms = tensor("first_edge").size(0) - 1,
                .receivers = {tensor("receivers"), {}, tensor("first_edge")},
                .senders = {tensor("senders"), tensor("sender_order"), tensor("first_sent")},
                .of_atoms = {tensor("graphs"), {}, tensor("first_atom")},
                .degree_means = batch["degree_means"]};
  graphs.pairs = config.computes_pairs()
                     ? ops::pairs_of(graphs.receivers, graphs.senders, tensor("pairs"), tensor("first_edges"))
                     : ops::pairs_of(graphs.receivers, graphs.senders, {}, {});
  if (!vectors.defined()) return graphs;
  graphs.geometry.vectors = vectors.to(type);
  EdgeGeometry& edges = graphs.geometry;
  edges.lengths = lengths_of(edges.vectors);
  if (has_radial(config.conv)) {
    const auto& functions = config.conv == Conv::painn ? sines : gaussians;
    edges.radial = functions(edges.lengths, config.radial, config.radius_of(level));
  }
  if (config.cutoff == Cutoff::cosine) edges.cutoff = cosine_cutoff(edges.lengths, config.radius_of(level));
  if (config.conv == Conv::painn) edges.cut = at::cat({edges.radial.mul(edges.cutoff), edges.cutoff}, 1);
  if (!config.reads_edge_features()) return graphs;
  std::vector<at::Tensor> parts;
  if (edges.radial.defined()) parts.push_back(edges.radial);
  if (!config.edge_features.empty()) parts.push_back(tensor("edge_features").to(type));
  if (!parts.empty()) edges.features = at::cat(parts, 1);
  return graphs;
}

}  // namespace terrace::models::gnn
