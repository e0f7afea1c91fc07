// The type of weights and activations for a precision of the configuration.
#pragma once

#include <c10/core/ScalarType.h>

#include "terrace/config/config.h"

namespace terrace::nn {

at::ScalarType scalar_type(config::Precision precision);

}  // namespace terrace::nn
