// All weights of a model by name, in fp32 on the CPU, without the rest of a model.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/models/gpt/cost/config.h"

namespace terrace::exchange {

// The group "weights" of such a model, zeroed.
checkpoint::Group make_weights(const models::gpt::ModelConfig& config);

}  // namespace terrace::exchange
