// What decides the last bits of a result besides the configuration: recorded with a checkpoint, compared on resume.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "terrace/base/json.h"
#include "terrace/ops/kernel_choice.h"

namespace terrace::train {

// What a run computes with.
struct KernelFacts {
  int64_t threads = 1;
  int64_t micro_batch = 1;
  int64_t ranks = 1;
  at::Device device = at::kCPU;
  at::ScalarType type = at::kFloat;
  ops::KernelChoice choice = {};
};

// The facts, the processor, its vector instructions, whose kernels serve, the version of the library.
Json kernel_record(const KernelFacts& facts);

// The choice that a record was made with, to go on with it.
ops::KernelChoice recorded_choice(const Json& record);

// Sentences about what differs, such as "threads 2 -> 4"; "" where a run continues to the last bit.
std::string kernel_differences(const Json& saved, const Json& now);

}  // namespace terrace::train
