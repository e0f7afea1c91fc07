// [model] of a vision transformer as a plain struct, with the default of every key.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/domain.h"
#include "terrace/config/names.h"
#include "terrace/data/fields/fields_config.h"

namespace terrace::models::vit {

// The summand of the head's output: nothing, the last input of the variable, its climatology, or its climatology and
// the anomaly of the last input times a trained coefficient of each place (damped persistence).
enum class Predicts { field, change, anomaly, damped_anomaly };

struct ModelConfig {
  std::vector<std::string> variables = {};  // names of the variables that the model is given
  std::vector<std::string> outputs = {};    // variables among these that the model predicts; none in the file means all
  std::vector<int64_t> grid = {};           // latitudes and longitudes
  int64_t patch = 0;                        // rows and columns of a patch
  int64_t layers = 0;
  int64_t width = 0;  // hidden size
  int64_t heads = 0;
  double mlp_ratio = 4.0;      // inner width of the feed-forward blocks over `width`
  int64_t head_layers = 2;     // hidden layers of the head
  bool qk_norm = false;        // LayerNorm of each head's queries and keys, in the aggregation too
  bool lead_embedding = true;  // how far ahead the model predicts is an input
  bool time_inputs = false;    // the day of the year and the hour of the day are inputs too
  Predicts predicts = Predicts::field;
  config::NamedNumbers loss_weights = {};  // of an output in the loss; 1 where none is given
  double norm_epsilon = 1e-5;
  double dropout = 0.1;
  double drop_path = 0.1;  // of the last block; those before it have less, the first 0

  // Derived from `variables` and [data]: the names of the fields that the model is given, in their order. A variable at
  // an earlier time than the last has a name of its own.
  std::vector<std::string> channels = {};

  bool operator==(const ModelConfig&) const = default;

  int64_t latitudes() const { return grid.at(0); }
  int64_t longitudes() const { return grid.at(1); }
  // Rows and columns of patches. Where the patch does not divide the latitudes, the last row of patches goes on beyond
  // the last latitude, whose values it repeats.
  int64_t patch_rows() const { return (latitudes() + patch - 1) / patch; }
  int64_t patch_columns() const { return longitudes() / patch; }
  int64_t places() const { return patch_rows() * patch_columns(); }
  int64_t padded_latitudes() const { return patch_rows() * patch; }
  int64_t patch_size() const { return patch * patch; }
  int64_t head_dim() const { return width / heads; }
  int64_t ffn_width() const;
  int64_t num_channels() const { return std::ssize(channels); }
  int64_t num_outputs() const { return std::ssize(outputs); }
  bool damps_anomaly() const { return predicts == Predicts::damped_anomaly; }
  bool reads_climatology() const { return predicts == Predicts::anomaly || damps_anomaly(); }
};

// Replaces what means "derive it" by the derived values.
void derive(config::Config& config);

// The weight of each output in the loss, in their order; their mean is 1.
std::vector<double> output_weights(const ModelConfig& model);

// The stochastic depth of a block: linear in the number of the block (Huang et al., arXiv 1603.09382).
double drop_path_of(const ModelConfig& model, int64_t layer);

// [model] of a configuration of this family. The const overload throws UserError if the family is another one.
inline ModelConfig& model_of(config::Config& config) { return config.model.get<ModelConfig>(); }
const ModelConfig& model_of(const config::Config& config);

// [data] of a configuration of this family.
inline data::FieldsConfig& data_of(config::Config& config) { return config.data.get<data::FieldsConfig>(); }
inline const data::FieldsConfig& data_of(const config::Config& config) { return config.data.get<data::FieldsConfig>(); }

}  // namespace terrace::models::vit

namespace terrace::config {

template <>
struct Names<models::vit::Predicts> {
  static constexpr std::array<std::string_view, 4> words = {"field", "change", "anomaly", "damped_anomaly"};
};

}  // namespace terrace::config
