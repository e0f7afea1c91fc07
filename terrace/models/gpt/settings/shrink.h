// Shrinks a GPT to a small one that is cut over ranks in the same way.
#pragma once

#include "terrace/config/config.h"

namespace terrace::models::gpt {

// See config::Settings::shrink.
void shrink(config::Config& config);

}  // namespace terrace::models::gpt
