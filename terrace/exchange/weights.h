// Makes all weights of a model by name, in fp32 on the CPU, without building the model.
#pragma once

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"

namespace terrace::exchange {

// The collection "weights" of the configuration's model; all values are zero.
checkpoint::Collection make_weights(const config::Config& config);

}  // namespace terrace::exchange
