// A small GPT that is cut up as a large one is.
#pragma once

#include "terrace/config/config.h"

namespace terrace::models::gpt {

// See Family::shrink.
void shrink(config::Config& config);

}  // namespace terrace::models::gpt
