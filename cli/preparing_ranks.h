// The processes of a launch that prepare a dataset together.
#pragma once

#include <memory>

#include "terrace/data/prepare_ranks.h"

namespace terrace::cli {

// Null where no launcher has started this process as one of several. Throws UserError, with text on one process alone,
// where they cannot be connected.
std::unique_ptr<data::PrepareRanks> connect_preparing_ranks();

}  // namespace terrace::cli
