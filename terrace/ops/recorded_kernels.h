// The kernels with a record around each call, so that a profile names them.
#pragma once

#include "terrace/ops/kernels.h"

namespace terrace::ops {

// The same table where nobody records; else one that records each call and passes it on to the device's kernel.
const Kernels& recorded_where_asked(const Kernels& device_kernels);

}  // namespace terrace::ops
