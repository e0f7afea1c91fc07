// Checks that a run can continue from a checkpoint: with these keys, and with these data.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/data/source.h"

namespace terrace::train {

// Throws UserError with every key that must not change, or if the checkpoint is past the last step.
void check_resumed_config(const config::Config& config, const checkpoint::Reader& checkpoint);

// Makes the data follow the order of the checkpoint's run, and writes that into `identity`, the one of `data`. Throws
// UserError that names what differs from the data of the checkpoint.
void check_resumed_data(data::Source& data, Json& identity, const checkpoint::Reader& checkpoint);

}  // namespace terrace::train
