// The GPT as a family of models.
#pragma once

#include "terrace/models/family.h"

namespace terrace::models::gpt {

const Family& family();

}  // namespace terrace::models::gpt
