// What each unit of a vision transformer computes and communicates on one rank for one micro-batch.
#pragma once

#include "terrace/models/vit/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::vit {

// The operations that the modules of models/vit execute in training. `drops_path`: of a block with stochastic depth.
schedule::Operations embedding_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);
schedule::Operations attention_operations(const ModelConfig& config, const schedule::UnitTableOptions& options,
                                          bool drops_path);
schedule::Operations ffn_operations(const ModelConfig& config, const schedule::UnitTableOptions& options,
                                    bool drops_path);
schedule::Operations head_operations(const ModelConfig& config, const schedule::UnitTableOptions& options);

}  // namespace terrace::models::vit
