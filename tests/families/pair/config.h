// [model] and [data] of the family of pairs.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/config/config.h"

namespace terrace::pair {

struct ModelConfig {
  int64_t layers = 0;
  int64_t width = 8;
  double sample_weight = 0.25;     // of the second loss
  bool fp32_narrow = false;        // the narrow branch is computed in fp32 in every precision
  bool buffers = false;            // the features are scaled by a table, and layers count their passes
  std::string initial = "normal";  // or "uniform", "truncated", "table": of the weights
  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::string train;       // a file with one line for each sample, see source.h
  double held_out = 0.25;  // share of the samples, at the file's end
  // Items of a sample, for planning.
  double average_items = 1.0;
  int64_t largest_items = 1;
  bool operator==(const DataConfig&) const = default;
};

inline const ModelConfig& model_of(const config::Config& config) { return config.model.get<ModelConfig>(); }
inline const DataConfig& data_of(const config::Config& config) { return config.data.get<DataConfig>(); }

}  // namespace terrace::pair
