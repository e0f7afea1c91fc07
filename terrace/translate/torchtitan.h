// Configurations of torchtitan in TOML as configurations of ours.
#pragma once

#include <string>

#include "terrace/translate/translation.h"

namespace terrace::translate {

// Translates the contents of a file as torchtitan read them in 2024 and 2025. Throws one UserError with every problem,
// as translate_megatron().
Translation translate_torchtitan(const std::string& toml, const std::string& file_name, const Wishes& wishes);

}  // namespace terrace::translate
