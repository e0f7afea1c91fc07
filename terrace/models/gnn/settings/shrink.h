// Makes a graph network small for verify.
#pragma once

#include "terrace/config/config.h"

namespace terrace::models::gnn {

void shrink(config::Config& config);

}  // namespace terrace::models::gnn
