// Wraps each kernel in a record, so that profiles show the kernel.
#pragma once

#include "terrace/ops/kernels.h"

namespace terrace::ops {

// `device_kernels` itself if no recorder is active, else a table that records each call and calls the device's kernel.
const Kernels& recorded_where_asked(const Kernels& device_kernels);

}  // namespace terrace::ops
