// Makes all weights of a model by name, in fp32 on the CPU, without building the model.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::exchange {

// The group "weights" of a model with this configuration; all values are zero.
checkpoint::Group make_weights(const models::gpt::ModelConfig& config);

}  // namespace terrace::exchange
