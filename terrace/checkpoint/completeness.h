// Checks that stored slices make up a whole tensor: each element is in exactly one of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {

using TensorRecords = std::vector<const TensorRecord*>;

// "[2, 3] at [0, 5]"
std::string describe_region(const TensorRecord& record);

// Two of the slices that have elements in common, if there are such. All slices have the same global shape.
std::optional<std::pair<const TensorRecord*, const TensorRecord*>> find_overlapping(TensorRecords slices);

// Why the slices do not make up the tensor exactly once: shapes or types that differ, elements that are repeated, or
// elements that are missing. "" where they do. There is at least one slice.
std::string completeness_problem(const TensorRecords& slices);

}  // namespace terrace::checkpoint
