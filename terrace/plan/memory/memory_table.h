// The memory of one device of each pipeline stage as a table that fits a terminal of 80 columns.
#pragma once

#include <string>

#include "terrace/config/config.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// A line for each category with a column for each stage, in the unit of the fullest stage's total, and one for the
// communicators beside the tensors where the machine states their memory. Of more than eight
// stages those shown are the first two, the fullest and the last.
std::string memory_table(const Prediction& prediction, const config::Config& config);

}  // namespace terrace::plan
