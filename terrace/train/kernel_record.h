// What decides the last bits of a result besides the configuration: recorded with a checkpoint, compared on resume.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "terrace/base/json.h"

namespace terrace::train {

// Threads, micro-batch, device, processor, vector instructions, version of the library.
Json kernel_record(int64_t threads, int64_t micro_batch, const at::Device& device);

// Sentences about what differs, such as "threads 2 -> 4"; "" where a run continues to the last bit.
std::string kernel_differences(const Json& saved, const Json& now);

}  // namespace terrace::train
