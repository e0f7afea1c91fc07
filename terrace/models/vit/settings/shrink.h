// Makes a vision transformer small for verify.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::models::vit {

void shrink(config::Config& config);
// See config::Settings::narrow.
void narrow(config::Config& config, int64_t width);

}  // namespace terrace::models::vit
