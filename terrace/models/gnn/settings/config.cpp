// Derives values of keys, and gives access to [model].
#include "terrace/models/gnn/settings/config.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::models::gnn {
namespace {

constexpr int64_t newest_reading = 2;

Activation usual_activation(Conv conv, Reading reading) {
  if (reading == Reading::hydragnn) return Activation::relu;
  switch (conv) {
    case Conv::schnet:
      return Activation::shifted_softplus;
    case Conv::painn:
    case Conv::egnn:
      return Activation::silu;
    case Conv::cgcnn:
      return Activation::softplus;
    case Conv::pna:
    case Conv::gin:
    case Conv::gatv2:
      break;
  }
  return Activation::relu;
}

// Where energies are differentiated, they must not jump when an atom comes within the radius of another atom.
Cutoff usual_cutoff(const ModelConfig& model) {
  if (always_has_cutoff(model.conv)) return Cutoff::cosine;
  const bool atoms_come_and_go = model.has_derivatives() && model.edges == Edges::radius;
  return can_have_cutoff(model.conv) && atoms_come_and_go ? Cutoff::cosine : Cutoff::none;
}

int64_t sum_of_sizes(const Sizes& sizes) {
  int64_t sum = 0;
  for (const auto& [name, size] : sizes) sum += size;
  return sum;
}

void derive_output(ModelConfig& model, OutputConfig& output) {
  if (output.label.empty()) output.label = output.name;
  if (output.is_derivative()) return;
  output.head = model.head_of(output);
  if (output.width == 0 && output.head != HeadKind::conv) output.width = model.width;
  if (output.offset == Offset::automatic) {
    const bool by_elements = output.level == Level::graph && (output.per_atom || output.is_atomwise());
    output.offset = by_elements && output.columns == 1 ? Offset::elements : Offset::mean;
  }
}

}  // namespace

int64_t ModelConfig::num_atom_features() const { return sum_of_sizes(atom_features); }
int64_t ModelConfig::num_edge_features() const { return sum_of_sizes(edge_features); }

bool ModelConfig::has_derivatives() const { return std::ranges::any_of(outputs, &OutputConfig::is_derivative); }

bool ModelConfig::reads_edge_features() const {
  return conv == Conv::egnn || conv == Conv::pna || conv == Conv::gatv2 || conv == Conv::cgcnn;
}

bool ModelConfig::computes_pairs() const {
  return (conv == Conv::schnet || conv == Conv::painn) && edges == Edges::radius && max_neighbours == 0;
}

int64_t ModelConfig::edge_columns() const { return radial + num_edge_features(); }

double ModelConfig::filter_step() const {
  if (!follows_hydragnn() || filters <= width) return 1.0;
  return static_cast<double>(width) / static_cast<double>(filters);
}

NormKind ModelConfig::norm_of_heads() const {
  if (norm != NormKind::none || !follows_hydragnn()) return norm;
  // Batch norm would let one molecule push another.
  return has_derivatives() ? NormKind::none : NormKind::batch;
}

bool ModelConfig::has_batch_norm() const {
  return norm == NormKind::batch || (has_conv_heads() && norm_of_heads() == NormKind::batch);
}

bool ModelConfig::has_conv_heads() const {
  return std::ranges::any_of(outputs, [](const OutputConfig& output) { return output.head == HeadKind::conv; });
}

bool ModelConfig::is_differentiated(const OutputConfig& output) const {
  return std::ranges::find(outputs, output.name, &OutputConfig::derivative_of) != outputs.end();
}

HeadKind ModelConfig::head_of(const OutputConfig& output) const {
  if (output.head != HeadKind::automatic) return output.head;
  return is_differentiated(output) ? HeadKind::atomwise : HeadKind::dense;
}

bool ModelConfig::is_pooled(const OutputConfig& output) const {
  return !output.is_derivative() && output.level == Level::graph && head_of(output) != HeadKind::atomwise;
}

bool ModelConfig::has_heads_of_atoms() const {
  return std::ranges::any_of(
      outputs, [this](const OutputConfig& output) { return !output.is_derivative() && !is_pooled(output); });
}

double ModelConfig::radius_of(int64_t level) const { return std::ldexp(radius, static_cast<int>(level)); }

bool ModelConfig::has_pooled_heads() const {
  return std::ranges::any_of(outputs, [this](const OutputConfig& output) { return is_pooled(output); });
}

bool has_radial(Conv conv) { return conv != Conv::egnn && conv != Conv::gin; }

bool can_have_cutoff(Conv conv) { return conv != Conv::pna && conv != Conv::gin; }

bool always_has_cutoff(Conv conv) { return conv == Conv::schnet || conv == Conv::painn; }

int64_t usual_radial(Conv conv) {
  if (!has_radial(conv)) return 0;
  return conv == Conv::painn ? 20 : 50;
}

void derive(config::Config& config) {
  ModelConfig& model = model_of(config);
  if (model.radial == 0) model.radial = usual_radial(model.conv);
  if (model.filters == 0 && model.conv == Conv::schnet) model.filters = model.width;
  if (model.shared_width == 0 && model.shared_layers > 0) model.shared_width = model.width;
  if (model.activation == Activation::automatic) model.activation = usual_activation(model.conv, model.reading);
  if (model.reading == Reading::hydragnn && model.reading_version == 0) model.reading_version = newest_reading;
  if (model.cutoff == Cutoff::automatic) model.cutoff = usual_cutoff(model);
  for (OutputConfig& output : model.outputs) derive_output(model, output);
}

std::vector<std::string> settings_of_earlier(const std::string& toml) {
  const bool lacks_version = toml.find("reading_version") == std::string::npos;
  const bool reads_as_hydragnn = toml.find("\nreading = \"hydragnn\"") != std::string::npos;
  if (!lacks_version || !reads_as_hydragnn || toml.find("\nfamily = \"gnn\"") == std::string::npos) return {};
  return {"model.reading_version=1"};
}

std::vector<double> output_weights(const ModelConfig& model) {
  double sum = 0;
  for (const OutputConfig& output : model.outputs) sum += output.weight;
  std::vector<double> weights;
  for (const OutputConfig& output : model.outputs) weights.push_back(output.weight / sum);
  return weights;
}

int64_t find_output(const ModelConfig& model, std::string_view name) {
  const auto found = std::ranges::find(model.outputs, name, &OutputConfig::name);
  return found == model.outputs.end() ? -1 : found - model.outputs.begin();
}

const ModelConfig& model_of(const config::Config& config) {
  if (const auto* model = config.model.find<ModelConfig>()) return *model;
  throw UserError::of("this needs a graph network (model.family = \"gnn\"), and the model is of the family \"{}\"",
                      config.family == nullptr ? "" : config.family->name);
}

}  // namespace terrace::models::gnn
