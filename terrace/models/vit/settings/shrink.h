// Makes a vision transformer small for verify.
#pragma once

#include "terrace/config/config.h"

namespace terrace::models::vit {

void shrink(config::Config& config);

}  // namespace terrace::models::vit
