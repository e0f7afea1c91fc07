// The number of parameters of a graph network by the formulas of its layers.
#pragma once

#include <cstdint>

#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {
inline int64_t linear_count(int64_t inputs, int64_t outputs) { return (inputs + 1) * outputs; }

// F is the width, K the columns of an edge's features.
inline int64_t conv_count(const ModelConfig& config, bool first, bool last) {
  const int64_t F = config.width, K = config.edge_columns(), filters = config.filters;
  const bool is_paper = config.reading == Reading::paper;
  switch (config.conv) {
    case Conv::schnet:
      return F * filters + linear_count(config.radial, filters) + linear_count(filters, filters) +
             linear_count(filters, F) + (is_paper ? linear_count(F, F) : 0);
    case Conv::painn: {
      const int64_t messages = (first ? 2 : 3) * F, updates = (last ? 2 : 3) * F;
      const int64_t ending = is_paper ? 0 : 2 * linear_count(F, F) + (last ? 0 : F * F);
      return linear_count(F, F) + linear_count(F, messages) + linear_count(config.radial, messages) + 2 * F * F +
             linear_count(2 * F, F) + linear_count(F, updates) + ending;
    }
    case Conv::egnn: {
      const int64_t moves = config.equivariance && !last ? linear_count(F, F) + F : 0;
      return linear_count(2 * F + 1 + K, F) + linear_count(F, F) + linear_count(2 * F, F) + linear_count(F, F) + moves;
    }
    case Conv::pna:
      return linear_count(2 * F + K, F) + linear_count(17 * F, F);
    case Conv::gin:
      return 1 + 2 * linear_count(F, F);
    case Conv::gatv2:
      return 2 * linear_count(F, F) + K * F + 2 * F;
    case Conv::cgcnn:
      break;
  }
  return 2 * linear_count(2 * F + K, F);
}

inline int64_t norm_count(const ModelConfig& config, NormKind norm) {
  return norm == NormKind::none ? 0 : 2 * config.width;
}

inline int64_t dense_count(int64_t inputs, int64_t layers, int64_t width, int64_t outputs) {
  if (layers == 0) return linear_count(inputs, outputs);
  return linear_count(inputs, width) + (layers - 1) * linear_count(width, width) + linear_count(width, outputs);
}

inline int64_t heads_count(const ModelConfig& config) {
  const int64_t shared = config.shared_layers == 0
                             ? 0
                             : linear_count(config.width, config.shared_width) +
                                   (config.shared_layers - 1) * linear_count(config.shared_width, config.shared_width);
  int64_t count = shared;
  for (const OutputConfig& output : config.outputs) {
    if (output.is_derivative()) continue;
    const bool is_conv = output.head == HeadKind::conv, shares = config.is_pooled(output) && config.shared_layers > 0;
    for (int64_t layer = 0; is_conv && layer < output.layers; ++layer) {
      count += conv_count(config, false, layer + 1 == output.layers) + norm_count(config, config.norm_of_heads());
    }
    count += dense_count(shares ? config.shared_width : config.width, is_conv ? 0 : output.layers, output.width,
                         output.head_columns());
  }
  return count;
}

inline int64_t parameter_count(const ModelConfig& config) {
  int64_t count = (element_rows + config.num_atom_features() + (config.charge.empty() ? 0 : 1)) * config.width;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    count += conv_count(config, layer == 0, config.is_last(layer)) + norm_count(config, config.norm);
  }
  if (config.keeps_finer_states()) count += config.coarse_levels() * linear_count(config.width, config.width);
  return count + config.head_copies() * heads_count(config);
}

}  // namespace terrace::models::gnn
