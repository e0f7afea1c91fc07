// Shrinks a GPT to a small one that is cut over ranks in the same way.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::models::gpt {

// See config::Settings::shrink.
void shrink(config::Config& config);
// See config::Settings::narrow.
void narrow(config::Config& config, int64_t width);

}  // namespace terrace::models::gpt
