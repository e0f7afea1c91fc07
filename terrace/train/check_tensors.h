// Checks that the tensors of the checkpoint with which a run begins fit its model, and that their files are whole.
#pragma once

#include <string>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"

namespace terrace::train {

// The extent of a check of tensors. With `checksums`, every file with wanted tensors is read and compared with its
// checksum.
enum class Depth { manifest, checksums };

// The tensors of the model in the collection "weights", "optimizer_m", "optimizer_v" or "buffers", whole and without
// memory.
checkpoint::Collection whole_collection(const config::Config& config, const std::string& name);

// Throws UserError that names train.initial_weights with every tensor that does not fit the model, or the damaged file.
// Returns InitialWeights::text(). Does nothing without this key.
std::string check_initial_weights(const config::Config& config, Depth depth);

// Checks the weights, buffers and optimizer states of a checkpoint that a run continues from, and the errors of
// quantized gradients if the run may need them.
void check_resumed_tensors(const config::Config& config, const checkpoint::Reader& checkpoint, Depth depth);

}  // namespace terrace::train
