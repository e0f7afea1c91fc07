// Small graph networks and batches for the tests of models.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/graphs/batch_edges.h"
#include "terrace/data/graphs/coarse_graph.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/graphs/order_by_row.h"
#include "terrace/data/graphs/structures/cell.h"
#include "terrace/models/gnn/cost/unit_table.h"
#include "terrace/models/gnn/model.h"
#include "tests/models/drawn_values.h"

namespace terrace::models::gnn {

struct SmallGnn {
  std::string name;
  ModelConfig config;
};

// An energy with its derivatives.
inline std::vector<OutputConfig> potential() {
  return {{.name = "energy", .label = "energy", .weight = 1, .per_atom = true},
          {.name = "forces", .label = "forces", .weight = 3, .derivative_of = "energy"},
          {.name = "stress",
           .label = "stress",
           .weight = 0.5,
           .derivative_of = "energy",
           .derivative = Derivative::stress}};
}

// Outputs of every kind that has a head.
inline std::vector<OutputConfig> many_outputs() {
  return {{.name = "gap", .label = "gap", .columns = 2, .weight = 1, .loss = LossKind::huber, .layers = 2, .width = 5},
          {.name = "charges", .level = Level::node, .label = "charges", .weight = 2, .loss = LossKind::mae},
          {.name = "enthalpy", .label = "enthalpy", .weight = 1, .layers = 0, .per_atom = true, .uncertain = true},
          {.name = "mass", .label = "mass", .weight = 1, .head = HeadKind::atomwise, .uncertain = true}};
}

inline ModelConfig with_derived_values(ModelConfig model) {
  config::Config config;
  config.model = config::FamilySettings::of(std::move(model));
  derive(config);
  return model_of(config);
}

inline ModelConfig small_gnn(Conv conv, std::vector<OutputConfig> outputs) {
  return {.conv = conv,
          .layers = 2,
          .width = 7,
          .radius = 3,
          .radial = has_radial(conv) ? 5 : 0,
          .heads = 1,
          .outputs = std::move(outputs)};
}

inline std::vector<SmallGnn> small_gnns() {
  std::vector<SmallGnn> list;
  for (const Conv conv : {Conv::schnet, Conv::painn, Conv::egnn, Conv::pna, Conv::gin, Conv::gatv2, Conv::cgcnn}) {
    const std::string name{config::name_of(conv)};
    ModelConfig plain = small_gnn(conv, many_outputs());
    plain.pooling = conv == Conv::painn ? Pooling::max : conv == Conv::gatv2 ? Pooling::add : Pooling::mean;
    plain.norm = conv == Conv::schnet || conv == Conv::gin ? NormKind::layer : NormKind::none;
    if (conv == Conv::gatv2) {
      plain.width = 6;
      plain.heads = 3;
    }
    list.push_back({name, plain});
    if (conv != Conv::gin) {
      list.push_back({name + " potential", small_gnn(conv, potential())});
      // A kink has no second derivative.
      list.back().config.activation = Activation::silu;
      if (conv == Conv::pna) list.back().config.cutoff = Cutoff::none;
    }
    ModelConfig hydragnn = plain;
    hydragnn.reading = Reading::hydragnn;
    hydragnn.shared_layers = 2;
    hydragnn.shared_width = 3;
    if (conv == Conv::schnet) hydragnn.filters = 11;  // more than states
    list.push_back({name + " of HydraGNN", hydragnn});
  }
  ModelConfig moving = small_gnn(Conv::egnn, potential());
  moving.equivariance = true;
  moving.layers = 3;
  list.push_back({"egnn that moves atoms", moving});
  moving.reading = Reading::hydragnn;
  moving.activation = Activation::tanh;
  moving.cutoff = Cutoff::none;
  list.push_back({"egnn of HydraGNN that moves atoms", moving});
  ModelConfig one = small_gnn(Conv::painn, potential());
  one.layers = 1;
  one.width = 1;
  one.norm = NormKind::layer;
  one.norm = NormKind::none;
  list.push_back({"painn of width 1", one});
  for (const Conv conv : {Conv::schnet, Conv::egnn, Conv::pna, Conv::gin, Conv::gatv2, Conv::cgcnn}) {
    ModelConfig coarse = small_gnn(conv, many_outputs());
    coarse.layers = 3;
    coarse.pool_every = conv == Conv::pna || conv == Conv::cgcnn ? 2 : 1;
    coarse.pooling = conv == Conv::schnet ? Pooling::max : conv == Conv::egnn ? Pooling::mean : Pooling::add;
    if (conv == Conv::gin) coarse.outputs[1].head = HeadKind::conv;
    list.push_back({std::string(config::name_of(conv)) + " on coarse graphs", coarse});
  }
  ModelConfig of_graphs = small_gnn(Conv::gatv2, {many_outputs().front()});
  of_graphs.layers = 3;
  of_graphs.pool_every = 1;
  list.push_back({"gatv2 on coarse graphs without heads of atoms", of_graphs});
  ModelConfig inputs = small_gnn(Conv::painn, many_outputs());
  inputs.atom_features = {{"mass", 1}, {"velocity", 3}};
  inputs.charge = "charge";
  inputs.branches = 2;
  inputs.outputs[1].head = HeadKind::conv;
  list.push_back({"painn with all inputs, branches and a conv head", inputs});
  ModelConfig normed = small_gnn(Conv::gin, many_outputs());
  normed.norm = NormKind::batch;
  normed.reading = Reading::hydragnn;
  list.push_back({"gin of HydraGNN with batch norm", normed});
  inputs.norm = NormKind::batch;
  list.push_back({"painn with batch norm and a conv head", inputs});
  for (SmallGnn& small : list) small.config = with_derived_values(small.config);
  return list;
}

// Structures of one batch.
struct SmallStructure {
  at::Tensor positions;  // [n, 3] fp64
  data::Cell cell = {};
  bool is_star = false;  // only edges from and to the first atom
};

inline at::Tensor random_numbers(std::vector<int64_t> sizes, at::Generator& generator) {
  return at::randn(sizes, generator, at::TensorOptions(at::kDouble));
}

// An atom with 71 neighbours, a chain with one atom that has none, an atom whose only neighbours are its own images, a
// single atom without edges, and a crystal with few atoms.
inline std::vector<SmallStructure> some_structures(uint64_t seed, bool with_many_neighbours = true) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(70 + seed);
  const data::Cell cubic{.vectors = {{{2.5, 0, 0}, {0.3, 2.6, 0}, {0, 0.2, 2.7}}}, .periodic = {true, true, true}};
  const data::Cell large{.vectors = {{{4.1, 0, 0}, {0.5, 4.0, 0}, {0, 0.7, 4.2}}}, .periodic = {true, true, true}};
  std::vector<SmallStructure> list;
  if (with_many_neighbours) {
    const at::Tensor around = random_numbers({71, 3}, generator);
    const at::Tensor lengths = at::rand({71, 1}, generator, at::TensorOptions(at::kDouble)).add(1.9);
    const at::Tensor sphere = around.div(around.square().sum(1, /*keepdim=*/true).sqrt()).mul(lengths);
    list.push_back({.positions = at::cat({at::zeros({1, 3}, at::kDouble), sphere}), .is_star = true});
  }
  at::Tensor chain = random_numbers({5, 3}, generator).mul(0.2);
  chain.select(1, 0).add_(at::tensor({0.0, 1.4, 2.9, 4.2, 30.0}, at::kDouble));
  list.push_back({chain});
  list.push_back({random_numbers({1, 3}, generator), cubic});
  list.push_back({random_numbers({1, 3}, generator)});
  list.push_back({random_numbers({3, 3}, generator).mul(1.5), large});
  return list;
}

// Adds the coarse levels of `graphs`, which become those of the last level, with the cells of the structures.
inline void add_coarse_levels(const std::vector<SmallStructure>& structures, std::vector<data::NodesAndEdges> graphs,
                              int64_t levels, Batch& batch) {
  const auto numbers = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); };
  for (int64_t level = 1; level <= levels; ++level) {
    data::BatchLevel all;
    for (size_t i = 0; i < graphs.size(); ++i) {
      const data::Clusters clusters = data::clusters_of(graphs[i], structures[i].cell, data::JoinOrder::length);
      graphs[i] = data::coarse_graph(graphs[i], structures[i].cell, clusters);
      for (const int64_t cluster : clusters.of_nodes) all.clusters.push_back(all.first_node.back() + cluster);
      all.edges.add(graphs[i], structures[i].cell, /*with_pairs=*/true);
      all.graphs.resize(static_cast<size_t>(all.edges.nodes()), static_cast<int64_t>(i));
      all.first_node.push_back(all.edges.nodes());
    }
    const data::OrderByRow sent = data::order_by_row(all.edges.senders, all.edges.nodes()),
                           members = data::order_by_row(all.clusters, all.edges.nodes());
    const auto add = [&](const char* name, const at::Tensor& tensor) {
      batch.tensors[data::level_tensor(level, name)] = tensor;
    };
    add("graphs", numbers(all.graphs));
    add("first_atom", numbers(all.first_node));
    add("clusters", numbers(all.clusters));
    add("members", numbers(members.order));
    add("first_member", numbers(members.first));
    add("receivers", numbers(all.edges.receivers));
    add("senders", numbers(all.edges.senders));
    add("first_edge", numbers(all.edges.first_edge));
    add("sender_order", numbers(sent.order));
    add("first_sent", numbers(sent.first));
    add("pairs", numbers(all.edges.pairs));
    add("first_edges", numbers(all.edges.first_edges));
    add("vectors", at::tensor(all.edges.vectors, at::kDouble).view({-1, 3}));
    batch.sizes[data::level_tensor(level, "atoms")] = all.edges.nodes();
    batch.sizes[data::level_tensor(level, "edges")] = all.edges.edges();
  }
}

// The tensors of a batch but those of labels and features.
inline Batch edges_of(const std::vector<SmallStructure>& structures, double radius, int64_t coarse_levels = 0) {
  std::vector<data::NodesAndEdges> finest;
  std::vector<int64_t> receivers, senders, graphs, first_atom = {0}, first_edge = {0}, pairs, first_edges;
  std::vector<std::array<int32_t, 3>> shifts;
  std::vector<at::Tensor> vectors = {at::empty({0, 3}, at::kDouble)};
  std::vector<double> volumes;
  for (const SmallStructure& structure : structures) {
    const int64_t base = first_atom.back(), atoms = structure.positions.size(0);
    const at::Tensor positions = structure.positions.contiguous();
    const auto list = data::find_neighbours({positions.const_data_ptr<double>(), static_cast<size_t>(3 * atoms)},
                                            structure.cell, {.cutoff = radius});
    at::Tensor cell = at::empty({3, 3}, at::kDouble);
    for (int64_t i = 0; i < 9; ++i) {
      cell[i / 3][i % 3] = structure.cell.vectors[static_cast<size_t>(i / 3)][static_cast<size_t>(i % 3)];
    }
    const double volume = data::volume_of(structure.cell);
    volumes.push_back(volume > 0 ? volume : 1);
    std::vector<int64_t> received(static_cast<size_t>(atoms), 0);
    data::NodesAndEdges& own = finest.emplace_back();
    own.edges.first_edge = {0};
    own.positions.assign(positions.const_data_ptr<double>(), positions.const_data_ptr<double>() + 3 * atoms);
    for (int64_t edge = 0; edge < list.edges(); ++edge) {
      const auto e = static_cast<size_t>(edge);
      if (structure.is_star && list.receivers[e] != 0 && list.senders[e] != 0) continue;
      ++received[static_cast<size_t>(list.receivers[e])];
      receivers.push_back(base + list.receivers[e]);
      senders.push_back(base + list.senders[e]);
      own.edges.receivers.push_back(list.receivers[e]);
      own.edges.senders.push_back(list.senders[e]);
      own.edges.shifts.push_back(list.shifts[e]);
      const auto& s = list.shifts[e];
      // The pair of the edge back, if that came before.
      int64_t pair = -1;
      for (size_t other = 0; other < shifts.size() && pair < 0; ++other) {
        const bool is_back = receivers[other] == senders.back() && senders[other] == receivers.back() &&
                             shifts[other] == std::array{-s[0], -s[1], -s[2]};
        if (is_back) pair = pairs[other];
      }
      if (pair < 0) {
        pair = std::ssize(first_edges);
        first_edges.push_back(std::ssize(pairs));
      }
      pairs.push_back(pair);
      shifts.push_back(s);
      const at::Tensor shift =
          at::tensor({static_cast<double>(s[0]), static_cast<double>(s[1]), static_cast<double>(s[2])}, at::kDouble);
      vectors.push_back(
          positions[list.senders[e]].sub(positions[list.receivers[e]]).add(shift.matmul(cell)).unsqueeze(0));
    }
    for (int64_t atom = 0; atom < atoms; ++atom) {
      graphs.push_back(std::ssize(first_atom) - 1);
      first_edge.push_back(first_edge.back() + received[static_cast<size_t>(atom)]);
      own.edges.first_edge.push_back(own.edges.first_edge.back() + received[static_cast<size_t>(atom)]);
    }
    first_atom.push_back(base + atoms);
  }
  std::vector<int64_t> order(senders.size()), first_sent(first_edge.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t edge) { return senders[static_cast<size_t>(edge)]; });
  for (const int64_t sender : senders) ++first_sent[static_cast<size_t>(sender + 1)];
  std::partial_sum(first_sent.begin(), first_sent.end(), first_sent.begin());
  const auto numbers = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); };
  Batch batch{.samples = at::arange(std::ssize(structures), at::TensorOptions(at::kLong)),
              .sizes = {{"atoms", std::ssize(graphs)}, {"edges", std::ssize(receivers)}}};
  batch.tensors = {{"graphs", numbers(graphs)},
                   {"first_atom", numbers(first_atom)},
                   {"receivers", numbers(receivers)},
                   {"senders", numbers(senders)},
                   {"first_edge", numbers(first_edge)},
                   {"sender_order", numbers(order)},
                   {"first_sent", numbers(first_sent)},
                   {"vectors", at::cat(vectors)},
                   {"pairs", numbers(pairs)},
                   {"first_edges", numbers(first_edges)},
                   {"volumes", at::tensor(volumes, at::kDouble)},
                   {"degree_means", at::tensor({1.9, 7.5}, at::kDouble)}};
  add_coarse_levels(structures, std::move(finest), coarse_levels, batch);
  return batch;
}

// A batch with random elements, features and labels.
inline Batch some_graphs(const ModelConfig& config, const std::vector<SmallStructure>& structures, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(90 + seed);
  Batch batch = edges_of(structures, config.radius, config.coarse_levels());
  const int64_t graphs = batch["volumes"].size(0), atoms = batch["graphs"].size(0);
  batch.tensors["species"] = at::randint(0, element_rows, {atoms}, generator, at::TensorOptions(at::kLong));
  batch.tensors["branches"] = at::randint(0, config.head_copies(), {graphs}, generator, at::TensorOptions(at::kLong));
  batch.tensors["atom_features"] = random_numbers({atoms, config.num_atom_features()}, generator).to(at::kFloat);
  batch.tensors["charges"] = random_numbers({graphs}, generator).to(at::kFloat);
  for (const OutputConfig& output : config.outputs) {
    const int64_t rows = output.of_atoms() ? atoms : graphs;
    batch.tensors["targets." + output.name] = random_numbers({rows, output.label_columns()}, generator);
    batch.tensors["offsets." + output.name] = random_numbers({rows, output.label_columns()}, generator);
    batch.tensors["scales." + output.name] = at::full({1}, 0.75, at::kDouble);
    const at::Tensor of_graphs = at::arange(graphs, at::TensorOptions(at::kLong)).remainder(4).ne(1).to(at::kFloat);
    const at::Tensor of_rows = output.of_atoms() ? of_graphs.index_select(0, batch["graphs"]) : of_graphs;
    batch.tensors["labelled." + output.name] = of_rows.unsqueeze(1).repeat({1, output.label_columns()});
  }
  return batch;
}

inline std::unique_ptr<Gnn> built(const ModelConfig& config, const nn::Build& build) {
  auto model = std::make_unique<Gnn>(config, build);
  mark_parameters(*model, unit_table(config, {}), build.type);
  return model;
}

// A network with every value from a normal distribution, so that no term is zero.
inline std::unique_ptr<Gnn> drawn(const ModelConfig& config, at::ScalarType type, uint64_t seed = 3) {
  auto model = built(config, {.type = type});
  // Small enough that sums over 71 edges do not grow from layer to layer.
  draw_values(*model, type, seed, 0.1, [](nn::Parameter& parameter, const at::Tensor& noise) {
    if (parameter.name.ends_with(".epsilon")) parameter.value.fill_(0.0);
    parameter.value.mul_(0.4).add_(noise);
  });
  return model;
}

// All terms; gradients are added to the parameters' buffers.
inline Tensors terms_and_gradients(Gnn& model, const Batch& batch, const Pass& pass) {
  Tensors terms = model.loss(0, {}, batch, pass), trained;
  for (size_t i = 0; i < terms.size() / 2; ++i) {
    if (terms[i].requires_grad()) trained.push_back(terms[i]);
  }
  const Tensors leaves = leaves_of_loss(model, 0, {});
  if (!trained.empty()) torch::autograd::backward(trained, {}, std::nullopt, /*create_graph=*/false, leaves);
  nn::collect_autograd_gradients(model.parameters());
  for (at::Tensor& term : terms) term = term.detach();
  return terms;
}

// Powers of two, so that sums of signs, which are gradients of absolute errors, have no rounding errors.
inline Pass training_pass(const ModelConfig& config) {
  Pass pass{.training = true, .gradient_scales = {}};
  for (size_t i = 0; i < config.outputs.size(); ++i) pass.gradient_scales.push_back(i % 2 == 0 ? 0.5 : 0.25);
  pass.gradient_scales.resize(2 * config.outputs.size(), 0.0);
  return pass;
}

// The name of a test with the network as its parameter.
inline std::string test_name(const ::testing::TestParamInfo<SmallGnn>& small) {
  std::string name = small.param.name;
  std::erase_if(name, [](char c) { return c == ','; });
  std::ranges::replace(name, ' ', '_');
  return name;
}

// Prints a network in messages of tests.
inline void PrintTo(const SmallGnn& small, std::ostream* stream) { *stream << small.name; }

}  // namespace terrace::models::gnn
