// The states of copies that make steps by themselves (parallel::OuterSteps) in a checkpoint. Each rank saves its own
// weights and moments, which mean something only at the layout where they were made; what all copies have in common is
// saved once for each part.
#pragma once

#include <functional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/train/rank_model.h"

namespace terrace::train {

// The collection of a checkpoint that holds them, and the key of a checkpoint's trainer state under which the layout
// is kept.
inline constexpr const char* copies_collection = "copies";
inline constexpr const char* copies_layout_key = "copies";

// The states of this rank, which share memory with those in use; no tensors where there are no such copies. Of
// the ranks that hold the same part in all copies the first one saves what the copies have in common, and the others
// read it under its name.
checkpoint::Collection copy_states(RankModel& own, int64_t rank, bool saves);

// Fills copy_states() from the checkpoint if it has those of the same layout, errors_layout(). Otherwise the copies
// begin at the weights of the checkpoint, and `log` is called with a sentence that says why. Called when all other
// states have been restored and spread.
void restore_copies(const checkpoint::Reader& checkpoint, RankModel& own, int64_t rank, const Json& layout,
                    const std::function<void(const std::string&)>& log);

}  // namespace terrace::train
