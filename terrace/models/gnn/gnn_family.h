// The family of graph networks with all its parts.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::gnn {

const config::Family& family();

}  // namespace terrace::models::gnn
