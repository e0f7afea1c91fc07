// The errors of quantized gradients (parallel::ErrorFeedback) in a checkpoint. Each rank saves its own ones, which mean
// something only at the layout where they were made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"
#include "terrace/parallel/sharded.h"

namespace terrace::train {

// The collection of a checkpoint that holds them.
inline constexpr const char* errors_collection = "gradient_errors";

// The key of a checkpoint's trainer state under which errors_layout() is kept.
inline constexpr const char* errors_layout_key = "gradient_errors";

// The errors of this rank, which share memory with those in use; no tensors if the rank keeps none.
checkpoint::Collection gradient_errors(const parallel::Sharded& sharded, int64_t rank);

// Everything that decides which errors a rank keeps, and of which elements: equal at equal layouts.
Json errors_layout(const config::LayoutConfig& layout, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes);

// Fills the errors in `own`, gradient_errors() of this rank, from the checkpoint if it has those of the same `layout`.
// Otherwise they stay as they are, and `log` is called with a sentence that says why.
void restore_errors(const checkpoint::Reader& checkpoint, const checkpoint::Collection& own, const Json& layout,
                    const std::function<void(const std::string&)>& log);

}  // namespace terrace::train
