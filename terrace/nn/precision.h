// The type that a precision of the configuration computes in.
#pragma once

#include <c10/core/ScalarType.h>

#include "terrace/config/config.h"

namespace terrace::nn {

at::ScalarType scalar_type(config::Precision precision);

}  // namespace terrace::nn
