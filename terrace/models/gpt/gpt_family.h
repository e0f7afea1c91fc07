// The family of the GPT with all its parts.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::gpt {

const config::Family& family();

}  // namespace terrace::models::gpt
