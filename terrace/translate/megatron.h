// Arguments of Megatron-LM and of Megatron-DeepSpeed as a configuration.
#pragma once

#include <optional>
#include <string>

#include "terrace/translate/deepspeed.h"
#include "terrace/translate/translation.h"

namespace terrace::translate {

// Translates the text of a command line: the arguments alone, or with the launcher and the script before them, as in
// "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 ..". With `deepspeed`, also the file that
// --deepspeed_config names. Throws one UserError with every problem: values that are missing or no such values,
// arguments that contradict each other, and those without which the configuration would be another model or another
// training.
Translation translate_megatron(const std::string& text, const std::optional<DeepSpeedFile>& deepspeed,
                               const Wishes& wishes);

}  // namespace terrace::translate
