// The family of graph networks without the parts that need torch.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::gnn {

const config::Family& planned_family();

}  // namespace terrace::models::gnn
