// [model] and [data] of the family of grids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/domain.h"

namespace terrace::grid {

struct ModelConfig {
  std::vector<std::string> variables;
  int64_t latitudes = 0, longitudes = 0;
  int64_t layers = 0;
  int64_t width = 8;
  config::NamedNumbers weights = {};  // of a variable in the loss; 1 where none is given
  bool operator==(const ModelConfig&) const = default;

  int64_t places() const { return latitudes * longitudes; }
  int64_t hidden() const { return 4 * width; }
};

struct DataConfig {
  std::string fields;                        // the prefix of a prepared dataset, see grid_data.h
  std::string statistics;                    // the description with the means and deviations; "": that of the dataset
  std::vector<double> leads = {6.0 * 3600};  // seconds from a field to the one that is predicted
  double held_out = 0.25;                    // share of the starts, at the end
  bool operator==(const DataConfig&) const = default;
};

inline const ModelConfig& model_of(const config::Config& config) { return config.model.get<ModelConfig>(); }
inline const DataConfig& data_of(const config::Config& config) { return config.data.get<DataConfig>(); }
inline DataConfig& data_of(config::Config& config) { return config.data.get<DataConfig>(); }

// The weight of each variable in the loss, in their order.
inline std::vector<double> variable_weights(const ModelConfig& config) {
  std::vector<double> weights;
  for (const std::string& variable : config.variables) {
    const auto found = config.weights.find(variable);
    weights.push_back(found == config.weights.end() ? 1.0 : found->second);
  }
  return weights;
}

}  // namespace terrace::grid
