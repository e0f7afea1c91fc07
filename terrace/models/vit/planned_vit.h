// The family of the vision transformer without the parts that need torch.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::vit {

const config::Family& planned_family();

}  // namespace terrace::models::vit
