// The communication options of a configuration.
#pragma once

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"

namespace terrace::train {

// Requests for reports are counted by train/report_request.h.
comm::WorldOptions world_options(const config::Config& config);

}  // namespace terrace::train
