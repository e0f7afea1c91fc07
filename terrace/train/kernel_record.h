// What decides the last bits of a result besides the configuration: recorded with a checkpoint, compared on resume.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/base/json.h"

namespace terrace::train {

// Threads, processor, vector instructions, versions of the library and of this program.
Json kernel_record(int64_t threads);

// Sentences about what differs, such as "threads 2 -> 4"; "" where a run continues to the last bit.
std::string kernel_differences(const Json& saved, const Json& now);

}  // namespace terrace::train
