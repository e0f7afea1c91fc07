// The table of the arguments of Megatron-LM and Megatron-DeepSpeed.
#pragma once

#include <span>

#include "terrace/translate/argument_table.h"

namespace terrace::translate {

std::span<const Row> megatron_table();

}  // namespace terrace::translate
