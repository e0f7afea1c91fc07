// The rules by which several arguments of Megatron-LM together make keys of ours. Each function reads the arguments
// that the table marks as parts, and sets keys or notes problems.
#pragma once

#include "terrace/translate/argument_table.h"

namespace terrace::translate {

// The name of the program where DeepSpeed trains.
inline constexpr std::string_view megatron_deepspeed = "Megatron-DeepSpeed";

// Positions, heads, the activation, the vocabulary and the rates of dropout.
void add_megatron_model(ArgumentReader& reader, const Translation& translation);
// Corpora, the tokenizer and documents.
void add_megatron_data(ArgumentReader& reader);
// The precision, the batch, the steps and the learning rate. The batch of a launch without one is a micro-batch for
// each data-parallel rank.
void add_megatron_training(ArgumentReader& reader, const Translation& translation);
// Stages, sharding and recompute.
void add_megatron_layout(ArgumentReader& reader, const Translation& translation);
// The number of devices, where the user gives none, and the description of the program.
void add_megatron_program(ArgumentReader& reader, Translation& translation);

}  // namespace terrace::translate
