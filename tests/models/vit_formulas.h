// Parameters, floating-point operations and bytes of a vision transformer in closed form, against which the tests hold
// what the trace of its units gives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/base/operation_limits.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::vit {

// The number of trained parameters.
inline int64_t parameter_count(const ModelConfig& config);

// Floating-point operations of the matrix products of a forward pass, two for each multiply-add.
//
// The aggregation of variables is counted as it is computed (aggregation.h): products that are made once a micro-batch
// of parameters alone, and products of patches at each place.
struct AggregationFlops {
  double once = 0;      // a micro-batch
  double of_place = 0;  // at each place of each sample
};
inline AggregationFlops aggregation_flops(const ModelConfig& config);
// Operations of one sample in one block: the linear layers, and the products of queries with keys and of probabilities
// with values.
inline double attention_linear_flops(const ModelConfig& config);
inline double attention_score_flops(const ModelConfig& config);
inline double ffn_flops(const ModelConfig& config);
inline double head_flops(const ModelConfig& config);

// Operations of one sample: the linear functions of the lead and of the time.
inline double lead_and_time_flops(const ModelConfig& config);

using schedule::UnitTableOptions;

// Bytes of the hidden states [B, L, D] on a rank.
inline int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options);
// Bytes that a unit keeps from forward to backward, that exist only while it or its gradients are computed, and that it
// keeps for weight gradients that backward defers: as schedule::UnitRow has them.
inline int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options,
                                    config::Recompute recompute);
inline int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
// Bytes that stochastic depth adds to each half of a block.
inline int64_t drop_path_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t layer,
                                    config::Recompute recompute);
inline int64_t embedding_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Places of the micro-batch that a rank computes between the cut layers: all without sequence parallelism.
inline int64_t own_places(const ModelConfig& config, const UnitTableOptions& options);

// Bytes of fp32, in which statistics and the aggregation are.
constexpr int64_t wide_bytes = 4;

inline double as_double(int64_t number) { return static_cast<double>(number); }

inline int64_t places_of(const ModelConfig& config, const UnitTableOptions& options) {
  return options.samples * config.places();
}

inline int64_t heads_on_rank(const ModelConfig& config, const UnitTableOptions& options) {
  return config.heads / options.tensor_ranks;
}

// A layer norm keeps its input, its output and its statistics.
inline int64_t norm_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return 2 * hidden_bytes(config, options) + 2 * own_places(config, options) * wide_bytes;
}

// The norm of queries and keys keeps its input and its statistics.
inline int64_t head_norm_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  if (!config.qk_norm) return 0;
  const int64_t heads = 2 * heads_on_rank(config, options);
  return places_of(config, options) * heads * (config.head_dim() * options.element_bytes + 2 * wide_bytes);
}

// Elements of a place on a rank in queries, keys, values and context, and before and after the activation.
inline int64_t attention_columns(const ModelConfig& config, const UnitTableOptions& options) {
  return 4 * heads_on_rank(config, options) * config.head_dim();
}
inline int64_t ffn_columns(const ModelConfig& config, const UnitTableOptions& options) {
  return 2 * config.ffn_width() / options.tensor_ranks;
}

// Columns of a rank's heads.
inline int64_t context_columns(const ModelConfig& config, const UnitTableOptions& options) {
  return heads_on_rank(config, options) * config.head_dim();
}

// Bytes of a gradient of the rank's own places, which exists beside that of all places with sequence parallelism.
inline int64_t own_gradient_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return options.sequence_parallel && options.tensor_ranks > 1 ? hidden_bytes(config, options) : 0;
}

// Bytes kept for the weight gradients of a half of a block: the input of its first product and the gradient of its
// output, which with sequence parallelism exists of all places and of the rank's own, and what is between the products.
inline int64_t half_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t columns) {
  const int64_t places = places_of(config, options);
  return places * (2 * config.width + columns) * options.element_bytes + own_gradient_bytes(config, options) +
         2 * config.width * wide_bytes;
}

inline int64_t half_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t columns) {
  return 2 * hidden_bytes(config, options) + places_of(config, options) * columns * options.element_bytes;
}

inline int64_t parameter_count(const ModelConfig& config) {
  const int64_t width = config.width, inner = config.ffn_width(), patch = config.patch_size();
  const int64_t head_norms = config.qk_norm ? 4 * config.head_dim() : 0;
  const int64_t tokens = config.num_channels() * width * (patch + 2);
  const int64_t aggregation = width + 4 * width * width + 4 * width + head_norms;
  const int64_t positions = config.places() * width;
  const int64_t lead_and_time = (config.lead_embedding ? 2 : 0) * width + (config.time_inputs ? 5 : 0) * width;
  const int64_t attention = 4 * width * width + 4 * width + head_norms, ffn = 2 * width * inner + inner + width;
  const int64_t head =
      2 * width + config.head_layers * width * (width + 1) + config.num_outputs() * patch * (width + 1);
  const int64_t damping = config.damps_anomaly() ? config.num_outputs() * config.latitudes() * config.longitudes() : 0;
  return tokens + aggregation + positions + lead_and_time + config.layers * (attention + ffn + 4 * width) + head +
         damping;
}

inline AggregationFlops aggregation_flops(const ModelConfig& config) {
  const double width = as_double(config.width), heads = as_double(config.heads);
  const double of_channel = as_double(config.patch_size() + 1), inputs = as_double(config.num_channels()) * of_channel;
  AggregationFlops flops{.once = 2 * width * width + 2 * inputs * width * width,
                         .of_place = 2 * inputs * (heads + width) + 2 * width * width};
  if (config.qk_norm) {
    // The map of keys, its products with the query and with itself, and the squares of deviations.
    flops.once += 2 * inputs * width * (width + 1 + of_channel);
    flops.of_place += 2 * inputs * of_channel * heads;
  } else {
    flops.once += 2 * width * width + 2 * inputs * width * heads;
  }
  return flops;
}

inline double lead_and_time_flops(const ModelConfig& config) {
  const int64_t inputs = (config.lead_embedding ? 1 : 0) + (config.time_inputs ? 4 : 0);
  return 2.0 * as_double(config.width) * as_double(inputs);
}

inline double attention_linear_flops(const ModelConfig& config) {
  return 8.0 * as_double(config.places()) * as_double(config.width) * as_double(config.width);
}

inline double attention_score_flops(const ModelConfig& config) {
  return 4.0 * as_double(config.places()) * as_double(config.places()) * as_double(config.width);
}

inline double ffn_flops(const ModelConfig& config) {
  return 4.0 * as_double(config.places()) * as_double(config.width) * as_double(config.ffn_width());
}

inline double head_flops(const ModelConfig& config) {
  const int64_t columns = config.head_layers * config.width + config.num_outputs() * config.patch_size();
  return 2.0 * as_double(config.places()) * as_double(config.width) * as_double(columns);
}

inline int64_t own_places(const ModelConfig& config, const UnitTableOptions& options) {
  return places_of(config, options) / (options.sequence_parallel ? options.tensor_ranks : 1);
}

inline int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return own_places(config, options) * config.width * options.element_bytes;
}

// The patches and the query, with which the attention to variables is computed again, the input of the output layer,
// and the inputs of the linear functions of lead and time.
inline int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t patches = config.num_channels() * config.patch_size() * wide_bytes;
  const int64_t inputs = (config.lead_embedding ? 1 : 0) + (config.time_inputs ? 4 : 0);
  return places_of(config, options) * (patches + context_columns(config, options) * options.element_bytes) +
         (config.width + options.samples * inputs) * wide_bytes;
}

// A half of a block keeps a factor for each sample.
inline int64_t drop_path_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t layer,
                                    config::Recompute recompute) {
  const bool keeps = drop_path_of(config, layer) > 0 && recompute != config::Recompute::full;
  return keeps ? options.samples * options.element_bytes : 0;
}

inline int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options,
                                    config::Recompute recompute) {
  if (recompute == config::Recompute::full) return hidden_bytes(config, options);
  const int64_t places = places_of(config, options);
  const int64_t log_sums =
      recompute == config::Recompute::none ? places * heads_on_rank(config, options) * wide_bytes : 0;
  return norm_bytes(config, options) + head_norm_bytes(config, options) +
         places * attention_columns(config, options) * options.element_bytes + log_sums;
}

inline int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute) {
  if (recompute == config::Recompute::full) return hidden_bytes(config, options);
  return norm_bytes(config, options) +
         places_of(config, options) * ffn_columns(config, options) * options.element_bytes;
}

// Copies of the weights and their gradients, and the tensors of one piece of the places.
inline int64_t embedding_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t inputs = config.num_channels() * (config.patch_size() + 1);
  const int64_t own = context_columns(config, options), row = heads_on_rank(config, options) * inputs * wide_bytes;
  const int64_t piece = std::min(places_of(config, options) * row, std::max(aggregation_piece_bytes, row));
  const int64_t maps = (config.qk_norm ? 5 : 2) * inputs;
  return 2 * (3 * own + maps) * config.width * wide_bytes + (config.qk_norm ? 6 : 3) * piece +
         2 * hidden_bytes(config, options);
}

inline int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return half_temporary_bytes(config, options, attention_columns(config, options)) + head_norm_bytes(config, options);
}

inline int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return half_temporary_bytes(config, options, ffn_columns(config, options));
}

// The activations of the head, patches of all places and fields in fp32.
inline int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t fields = places_of(config, options) * config.num_outputs() * config.patch_size();
  // The anomaly in patches, its product with the coefficients and the sum with the head's output.
  const int64_t damped = config.damps_anomaly() ? 4 * fields * wide_bytes : 0;
  return (3 + 2 * config.head_layers) * hidden_bytes(config, options) +
         fields * (2 * options.element_bytes + 5 * wide_bytes) + damped;
}

// The operands of the output layer's weight gradient.
inline int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return places_of(config, options) * (config.width + context_columns(config, options)) * options.element_bytes +
         own_gradient_bytes(config, options);
}

inline int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t head_norms = config.qk_norm ? 3 * config.head_dim() * wide_bytes : 0;  // no bias of keys
  return half_deferred_bytes(config, options, attention_columns(config, options)) + head_norms;
}

inline int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return half_deferred_bytes(config, options, ffn_columns(config, options));
}

}  // namespace terrace::models::vit
