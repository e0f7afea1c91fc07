// Records in each checkpoint what decides the last bits of a result besides the configuration, to compare it on resume.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/base/text/sizes.h"
#include "terrace/ops/kernel_choice.h"

namespace terrace::train {

// The facts about a run that decide which kernels it computes with.
struct KernelFacts {
  int64_t threads = 1;
  int64_t micro_batch = 1;
  Sizes micro_batch_sizes = {};  // the budget of a micro-batch, if it has one
  int64_t ranks = 1;
  at::Device device = at::kCPU;
  at::ScalarType type = at::kFloat;
  ops::KernelChoice choice = {};
};

// The facts, the processor and its vector instructions, whose kernels are used (ours or torch's), and torch's version.
// "products" is one name of kernels if all products use the same ones, as in the records of older versions. Otherwise
// it has an object for each class of weights: "medium": {"forward": "torch", "input_gradient": "avx512", ..}.
Json kernel_record(const KernelFacts& facts);

// The choice of kernels in a record, with which the run continues. One name of kernels is the choice for all products.
ops::KernelChoice recorded_choice(const Json& record);

// Names the differences, such as "threads 2 -> 4, ranks 1 -> 2"; "" if the run continues bit for bit. Products differ
// by class, such as 'products.medium.forward "torch" -> "avx512"', also from one name for all of them.
std::string kernel_differences(const Json& saved, const Json& now);

}  // namespace terrace::train
