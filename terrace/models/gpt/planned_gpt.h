// The family of the GPT without the part that needs torch.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::gpt {

const config::Family& planned_family();

}  // namespace terrace::models::gpt
