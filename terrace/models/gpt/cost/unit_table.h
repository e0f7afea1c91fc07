// The unit table of a GPT.
#pragma once

#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// The rows are the embedding, the attention and the feed-forward network of each layer, each with the norm before it,
// and the head.
schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options,
                               bool reset_at_documents = false);

}  // namespace terrace::models::gpt
