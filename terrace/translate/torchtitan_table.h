// The table of the keys of torchtitan's configuration, and the sizes of its models.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "terrace/translate/argument_table.h"

namespace terrace::translate {

std::span<const Row> torchtitan_table();

struct TitanFlavor {
  std::string_view name;
  int64_t layers, width, heads, kv_heads, ffn_width, vocabulary;
};

// The flavors of the model "llama3".
std::span<const TitanFlavor> llama3_flavors();

}  // namespace terrace::translate
