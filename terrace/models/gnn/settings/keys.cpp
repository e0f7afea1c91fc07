// Defines the keys of [model] that a graph network has.
#include "terrace/models/gnn/settings/keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "terrace/config/section_keys.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {
namespace {

using config::Choice;
using config::Flag;
using config::most_layers;
using config::most_width;
using config::OnResume;
using config::positive;
using config::SizesByName;
using config::Text;
using config::Whole;

constexpr int64_t most_radial = 10'000, most_columns = 10'000, most_branches = 1'000;

// Words of which some are known and refused by name.
template <typename Enum>
struct ChoiceWithoutSome {
  std::vector<std::string_view> not_built;

  std::string description() const { return Choice<Enum>{}.description(); }
  std::string read(const toml::node& node, Enum& value) const {
    const auto word = node.value<std::string>();
    if (node.is_string() && std::ranges::find(not_built, *word) != not_built.end()) {
      return fmt::format("is not built yet; use {}", description());
    }
    return Choice<Enum>{}.read(node, value);
  }
};

const ChoiceWithoutSome<Conv>& convs() {
  static const ChoiceWithoutSome<Conv> choice{
      {"dimenet", "mace", "gat", "sage", "mfc", "pnaplus", "pnaeq", "allscaip", "uma"}};
  return choice;
}

config::TableListKeys<OutputConfig> output_keys() {
  using O = OutputConfig;
  config::TableListKeys<O> keys;
  keys.required(
      "name", &O::name, Text{}, "\"energy\"",
      "Of the output in metrics and files: lower-case letters, digits and _, of which a letter is the first.");
  keys.optional("level", &O::level, Choice<Level>{}, "Whether a graph or each of its atoms (nodes) has a value.");
  keys.optional("label", &O::label, Text{.may_be_empty = true},
                "The property of the data that it is trained on. Empty: that of its name.");
  keys.optional("columns", &O::columns, Whole{1, most_columns}, "Of the property.");
  keys.optional("weight", &O::weight, positive, "In the loss; the weights are divided by their sum.");
  keys.optional("loss", &O::loss, Choice<LossKind>{},
                "Squared error, absolute error, or half the squared error up to 1 and the absolute error less 1/2 "
                "above; all in units of the normalised property.");
  keys.optional("head", &O::head, Choice<HeadKind>{},
                "What makes the output of the atoms' states: hidden layers (dense), before them layers of the network "
                "that it has for itself (conv; of nodes), or hidden layers for each atom whose results are summed over "
                "the graph (atomwise; of graphs). auto: atomwise where another output is its derivative, else dense.");
  keys.optional("layers", &O::layers, Whole{0, most_layers},
                "Hidden layers of the head; of a conv head layers of the network.");
  keys.optional("width", &O::width, Whole{0, most_width}, "Of the hidden layers. 0: `width` of the model.");
  keys.optional("per_atom", &O::per_atom, Flag{},
                "Loss and figures are those of the property divided by the number of atoms; of graphs.");
  keys.optional("uncertain", &O::uncertain, Flag{},
                "The head gives a mean and a variance, and the loss is the negative logarithm of a normal "
                "distribution's density (without its constant).");
  keys.optional("offset", &O::offset, Choice<Offset>{},
                "What is taken off the property before it is learned: for each atom a number of its element, fitted to "
                "the training part (elements; of graphs), the mean, or nothing. auto: elements for a per_atom or "
                "atomwise output of one column, else the mean.");
  keys.optional("derivative_of", &O::derivative_of, Text{.may_be_empty = true},
                "The output, an atomwise energy, whose derivative this one is. Empty: it has a head of its own.");
  keys.optional("derivative", &O::derivative, Choice<Derivative>{},
                "Forces, the negative derivative by the positions (3 columns), or stress, the derivative by the strain "
                "of the cell over its volume (9 columns).");
  return keys;
}

}  // namespace

std::vector<config::Key> keys() {
  using M = ModelConfig;
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("conv", &M::conv, convs(), OnResume::fixed, "\"painn\"", "The layers of the network.");
  model.optional("reading", &M::reading, Choice<Reading>{}, OnResume::fixed,
                 "Where HydraGNN reads a layer differently than the paper that introduced it: whose reading.");
  model.optional(
      "reading_version", &M::reading_version, Whole{0, 2}, OnResume::fixed,
      "How closely reading = \"hydragnn\" follows it. 1: as terrace did before it had this key. 2: painn has "
      "SiLU inside of its layers, conv heads have batch norm where `norm` is none, and weights begin, and schnet's "
      "filters move, so that narrow layers with ReLU learn (docs/materials.md). 0: 2.");
  model.required("layers", &M::layers, Whole{1, most_layers}, OnResume::fixed, "3", "Layers of the network.");
  model.required("width", &M::width, Whole{1, most_width}, OnResume::fixed, "128", "Of the state of an atom.");
  model.optional("edges", &M::edges, Choice<Edges>{}, OnResume::fixed,
                 "Atoms nearer than `radius`, with all images of periodic cells, or the edges of the files.");
  model.optional("radius", &M::radius, positive, OnResume::fixed,
                 "Angstrom, of the edges, and of the radial functions.");
  model.optional(
      "cutoff", &M::cutoff, Choice<Cutoff>{}, OnResume::fixed,
      "What multiplies the messages of edges: a cosine of their length that falls to 0 at `radius`, or "
      "nothing (none), so that energies jump where an atom crosses it. schnet and painn have the cosine, and "
      "pna and gin have none. auto: cosine with derivatives and edges within a radius, else as published.");
  model.optional("max_neighbours", &M::max_neighbours, Whole{0, 1'000'000}, OnResume::fixed,
                 "The nearest atoms that each atom keeps of those within `radius`. 0: all.");
  model.optional("cap_with_forces", &M::cap_with_forces, Flag{}, OnResume::fixed,
                 "Allows `max_neighbours` beside derivatives, although energies then jump where neighbours change.");
  model.optional("radial", &M::radial, Whole{0, most_radial}, OnResume::fixed,
                 "Radial functions, which turn the length of an edge into features. 0: 20 with painn, 50 with others.");
  model.optional("filters", &M::filters, Whole{0, most_width}, OnResume::fixed,
                 "Width of the filters of schnet. 0: `width`.");
  model.optional("heads", &M::heads, Whole{1, 10'000}, OnResume::fixed, "Attention heads of gatv2; divides `width`.");
  model.optional("equivariance", &M::equivariance, Flag{}, OnResume::fixed,
                 "With egnn: each layer but the last moves the atoms.");
  model.optional("atom_features", &M::atom_features, SizesByName{.number = Whole{1, most_columns}}, OnResume::fixed,
                 "Properties of atoms that are inputs beside the element, with their numbers of columns.");
  model.optional("edge_features", &M::edge_features, SizesByName{.number = Whole{1, most_columns}}, OnResume::fixed,
                 "Properties of given edges that are inputs, with their numbers of columns.");
  model.optional("charge", &M::charge, Text{.may_be_empty = true}, OnResume::fixed,
                 "A property of structures of one column, such as the total charge, that is an input.");
  model.optional(
      "norm", &M::norm, Choice<NormKind>{}, OnResume::fixed,
      "Of the atoms' states after each layer: LayerNorm, or batch norm over the atoms of a step on all ranks.");
  model.optional("activation", &M::activation, Choice<Activation>{}, OnResume::fixed,
                 "Of layers and heads. auto: that of the paper, or relu with reading = \"hydragnn\".");
  model.optional(
      "pool_every", &M::pool_every, Whole{0, most_layers}, OnResume::fixed,
      "Layers after which the nodes of each graph are clustered in pairs, so that the layers behind work on a "
      "coarser graph; not behind the last layer. 0: never. Not with painn, equivariance and derivatives.");
  model.optional("pooling", &M::pooling, Choice<Pooling>{}, OnResume::fixed,
                 "How the atoms' states become that of a graph, for outputs of graphs that are not atomwise.");
  model.optional("shared_layers", &M::shared_layers, Whole{0, most_layers}, OnResume::fixed,
                 "Hidden layers that all heads of pooled states share.");
  model.optional("shared_width", &M::shared_width, Whole{0, most_width}, OnResume::fixed,
                 "Of the shared layers. 0: `width`.");
  model.optional("branches", &M::branches, Whole{0, most_branches}, OnResume::fixed,
                 "Copies of every head and of the shared layers, one for each dataset of data.train, in their order. "
                 "0: all datasets have the same heads.");
  model.tables("outputs", &M::outputs, output_keys(), OnResume::fixed, "[{name = \"energy\", per_atom = true}]",
               "What the model predicts.");
  return list;
}

std::vector<config::OtherName> other_names() {
  return {
      {"mpnn_type", "model.conv"},
      {"hidden_dim", "model.width"},
      {"num_conv_layers", "model.layers"},
      {"num_gaussians", "model.radial"},
      {"num_radial", "model.radial"},
      {"num_filters", "model.filters"},
      {"graph_pooling", "model.pooling"},
      {"output_heads", "model.outputs"},
      {"task_weights", "model.outputs", "", "Each output has its weight."},
      {"num_sharedlayers", "model.shared_layers"},
      {"dim_sharedlayers", "model.shared_width"},
  };
}

}  // namespace terrace::models::gnn
