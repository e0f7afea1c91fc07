// Gives parameters, floating-point operations and bytes of a vision transformer in closed form.
#pragma once

#include <cstdint>

#include "terrace/models/vit/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::vit {

// The number of trained parameters.
int64_t parameter_count(const ModelConfig& config);

// Floating-point operations of the matrix products of a forward pass, two for each multiply-add.
//
// The aggregation of variables is counted as it is computed (aggregation.h): products that are made once a micro-batch
// of parameters alone, and products of patches at each place.
struct AggregationFlops {
  double once = 0;      // a micro-batch
  double of_place = 0;  // at each place of each sample
};
AggregationFlops aggregation_flops(const ModelConfig& config);
// Of one sample in one block: the linear layers, and the products of queries with keys and of probabilities with
// values.
double attention_linear_flops(const ModelConfig& config);
double attention_score_flops(const ModelConfig& config);
double ffn_flops(const ModelConfig& config);
double head_flops(const ModelConfig& config);

// Of a sample: the linear functions of the lead and of the time.
double lead_and_time_flops(const ModelConfig& config);

using schedule::UnitTableOptions;

// Bytes of the hidden states [B, L, D] on a rank.
int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options);
// Bytes that a unit keeps from forward to backward, that exist only while it or its gradients are computed, and that it
// keeps for weight gradients that backward defers: as schedule::UnitRow has them.
int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
// What stochastic depth adds to each half of a block.
int64_t drop_path_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t layer,
                             config::Recompute recompute);
int64_t embedding_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Places of the micro-batch that a rank computes between the cut layers: all without sequence parallelism.
int64_t own_places(const ModelConfig& config, const UnitTableOptions& options);

}  // namespace terrace::models::vit
