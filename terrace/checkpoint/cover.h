// Whether stored slices are a whole tensor: no element missing, none there twice.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {

using TensorRecords = std::vector<const TensorRecord*>;

// "[2, 3] at [0, 5]"
std::string place_of(const TensorRecord& record);

// Two of the slices that share elements, where there are such. All have one global shape.
std::optional<std::pair<const TensorRecord*, const TensorRecord*>> shared_elements(TensorRecords slices);

// What keeps the slices of one tensor from being exactly the whole: other shapes or types than the first has, elements
// twice, elements that nobody has. "" where nothing does. There is at least one slice.
std::string cover_problem(const TensorRecords& slices);

}  // namespace terrace::checkpoint
