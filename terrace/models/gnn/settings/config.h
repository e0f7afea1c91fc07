// [model] of a graph network as a plain struct, with the default of every key.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/sizes.h"
#include "terrace/config/config.h"
#include "terrace/config/names.h"
#include "terrace/data/graphs/graphs_config.h"

namespace terrace::models::gnn {

enum class Conv { schnet, painn, egnn, pna, gin, gatv2, cgcnn };
// The reading of a layer: that of the paper that introduced the layer, or HydraGNN's.
enum class Reading { paper, hydragnn };
enum class Edges { radius, given };
enum class Pooling { add, mean, max };
enum class NormKind { none, layer, batch };
// The factor of the messages of edges, by which they fade out at the radius.
enum class Cutoff { automatic, none, cosine };
enum class Activation { automatic, relu, silu, tanh, gelu, softplus, shifted_softplus };

enum class Level { graph, node };
enum class LossKind { mse, mae, huber };
enum class HeadKind { automatic, dense, conv, atomwise };
enum class Offset { automatic, elements, mean, none };
enum class Derivative { forces, stress };

// One of [[model.outputs]].
struct OutputConfig {
  std::string name = {};
  Level level = Level::graph;
  std::string label = {};  // the property of the data; "": the name
  int64_t columns = 1;     // of the label, unless it is a derivative
  double weight = 1.0;     // in the loss
  LossKind loss = LossKind::mse;
  HeadKind head = HeadKind::automatic;
  int64_t layers = 1;  // hidden layers of the head, or layers of the network that a conv head has for itself
  int64_t width = 0;   // of these layers; 0: model.width
  bool per_atom = false;
  bool uncertain = false;
  Offset offset = Offset::automatic;
  std::string derivative_of = {};  // an output; "": this one has a head
  Derivative derivative = Derivative::forces;

  bool operator==(const OutputConfig&) const = default;

  bool is_derivative() const { return !derivative_of.empty(); }
  // Whether the label has a value for each atom.
  bool of_atoms() const { return is_derivative() ? derivative == Derivative::forces : level == Level::node; }
  int64_t label_columns() const {
    if (!is_derivative()) return columns;
    return derivative == Derivative::forces ? 3 : 9;
  }
  bool is_atomwise() const { return head == HeadKind::atomwise; }
  // Columns of the head's last layer: with `uncertain` the variance has as many as the mean.
  int64_t head_columns() const { return uncertain ? 2 * columns : columns; }
};

struct ModelConfig {
  Conv conv = Conv::schnet;
  Reading reading = Reading::paper;
  int64_t reading_version = 0;  // of hydragnn: 1 or 2 (see follows_hydragnn()); 0: 2
  int64_t layers = 0;
  int64_t width = 0;  // of the states of atoms
  Edges edges = Edges::radius;
  double radius = 5.0;  // angstrom
  Cutoff cutoff = Cutoff::automatic;
  int64_t max_neighbours = 0;  // of an atom; 0: no cap
  bool cap_with_forces = false;
  int64_t radial = 0;                            // radial functions; 0: as many as usual for `conv`
  int64_t filters = 0;                           // schnet; 0: width
  int64_t heads = 4;                             // gatv2
  bool equivariance = false;                     // egnn: layers move atoms
  Sizes atom_features = {}, edge_features = {};  // properties of the data with their numbers of columns
  std::string charge = {};                       // a property of structures; "": none
  NormKind norm = NormKind::none;
  Activation activation = Activation::automatic;
  int64_t pool_every = 0;  // layers after which nodes are clustered (data/graphs/coarse_graph.h); 0: never
  Pooling pooling = Pooling::add;
  int64_t shared_layers = 0, shared_width = 0;  // hidden layers that pooled heads share; width 0: that of the model
  int64_t branches = 0;                         // copies of every head, one for each dataset; 0: one head for all
  std::vector<OutputConfig> outputs = {};

  bool operator==(const ModelConfig&) const = default;

  int64_t head_copies() const { return branches == 0 ? 1 : branches; }
  // Columns of all of them.
  int64_t num_atom_features() const;
  int64_t num_edge_features() const;
  bool has_derivatives() const;
  // Whether the layers read features of edges (radial functions and edge_features) as inputs of their networks.
  bool reads_edge_features() const;
  // Whether an edge and the one back have the same factors in the layers, and there is one back for each: they are then
  // computed once for both.
  bool computes_pairs() const;
  // Columns of an edge's features for layers that read them.
  int64_t edge_columns() const;
  // Whether another output is the derivative of this one.
  bool is_differentiated(const OutputConfig& output) const;
  bool has_conv_heads() const;
  // Whether layers follow HydraGNN in its activations inside of painn, the batch norm in conv heads and initial values
  // with which narrow heads of ReLU learn. Checkpoints of earlier versions do not.
  bool follows_hydragnn() const { return reading == Reading::hydragnn && reading_version != 1; }
  // The factor of schnet's weights that make the filters and of the weights that read the sums over them; these weights
  // begin larger by its inverse. AdamW moves every weight by about the learning rate, so sums over many filters would
  // move that much further, and at a high rate the layer's units of ReLU end at 0 for all inputs. The factor divides
  // the step of these weights as maximal update parametrisation does (Yang et al., arXiv 2203.03466).
  double filter_step() const;
  // The norm behind the layers of conv heads.
  NormKind norm_of_heads() const;
  bool has_batch_norm() const;
  // The head of an output; of `automatic` the one that is derived.
  HeadKind head_of(const OutputConfig& output) const;
  // Whether the output's head reads what a graph's atoms are pooled to.
  bool is_pooled(const OutputConfig& output) const;
  bool has_pooled_heads() const;
  // Whether an output reads the states of atoms.
  bool has_heads_of_atoms() const;
  // The level of the graph on which a layer works: 0 is that of the atoms, and each next one that of clusters of the
  // nodes of the one before.
  int64_t level_of(int64_t layer) const { return pool_every == 0 ? 0 : layer / pool_every; }
  // The level of the last layer, which is the number of times that nodes are clustered.
  int64_t coarse_levels() const { return pool_every == 0 ? 0 : (layers - 1) / pool_every; }
  // Whether the states before each clustering are kept, to bring those of the last level back to the atoms.
  bool keeps_finer_states() const { return coarse_levels() > 0 && has_heads_of_atoms(); }
  // The radius of the radial functions and the cutoff at a level. No edge of a level is longer, since an edge between
  // clusters joins means of two nodes that an edge joins.
  double radius_of(int64_t level) const;
  // The layer of the network that comes last before heads of their own layers, and so leaves out what no head reads.
  bool is_last(int64_t layer) const { return layer + 1 == layers && !has_conv_heads(); }
};

inline constexpr int64_t element_rows = 119;  // rows of the table of elements; row 0 is no atom

// Whether the layers have radial functions; how many are usual.
bool has_radial(Conv conv);
int64_t usual_radial(Conv conv);

// Whether the layer is one whose messages can be multiplied by a cutoff, and whether they always are.
bool can_have_cutoff(Conv conv);
bool always_has_cutoff(Conv conv);

// Replaces what means "derive it" by the derived values.
void derive(config::Config& config);

// The settings by which a configuration that an earlier version wrote, in TOML, means what it did then.
std::vector<std::string> settings_of_earlier(const std::string& toml);

// The weight of each output in the loss, in their order; their sum is 1.
std::vector<double> output_weights(const ModelConfig& model);

// The number of the output with the name; -1 where there is none.
int64_t find_output(const ModelConfig& model, std::string_view name);

// [model] of a configuration of this family. The const overload throws UserError if the family is another one.
inline ModelConfig& model_of(config::Config& config) { return config.model.get<ModelConfig>(); }
const ModelConfig& model_of(const config::Config& config);

// [data] of a configuration of this family.
inline data::GraphsConfig& data_of(config::Config& config) { return data::graphs_of(config); }
inline const data::GraphsConfig& data_of(const config::Config& config) { return data::graphs_of(config); }

}  // namespace terrace::models::gnn

namespace terrace::config {

template <>
struct Names<models::gnn::Conv> {
  static constexpr std::array<std::string_view, 7> words = {"schnet", "painn", "egnn", "pna", "gin", "gatv2", "cgcnn"};
};
template <>
struct Names<models::gnn::Reading> {
  static constexpr std::array<std::string_view, 2> words = {"paper", "hydragnn"};
};
template <>
struct Names<models::gnn::Edges> {
  static constexpr std::array<std::string_view, 2> words = {"radius", "given"};
};
template <>
struct Names<models::gnn::Pooling> {
  static constexpr std::array<std::string_view, 3> words = {"add", "mean", "max"};
};
template <>
struct Names<models::gnn::NormKind> {
  static constexpr std::array<std::string_view, 3> words = {"none", "layer", "batch"};
};
template <>
struct Names<models::gnn::Cutoff> {
  static constexpr std::array<std::string_view, 3> words = {"auto", "none", "cosine"};
};
template <>
struct Names<models::gnn::Activation> {
  static constexpr std::array<std::string_view, 7> words = {
      "auto", "relu", "silu", "tanh", "gelu", "softplus", "shifted_softplus"};
};
template <>
struct Names<models::gnn::Level> {
  static constexpr std::array<std::string_view, 2> words = {"graph", "node"};
};
template <>
struct Names<models::gnn::LossKind> {
  static constexpr std::array<std::string_view, 3> words = {"mse", "mae", "huber"};
};
template <>
struct Names<models::gnn::HeadKind> {
  static constexpr std::array<std::string_view, 4> words = {"auto", "dense", "conv", "atomwise"};
};
template <>
struct Names<models::gnn::Offset> {
  static constexpr std::array<std::string_view, 4> words = {"auto", "elements", "mean", "none"};
};
template <>
struct Names<models::gnn::Derivative> {
  static constexpr std::array<std::string_view, 2> words = {"forces", "stress"};
};

}  // namespace terrace::config
