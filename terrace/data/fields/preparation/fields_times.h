// The times of a dataset: those of all its files, in which no variable may lack one or have one twice.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "terrace/data/fields/preparation/fields_plan.h"

namespace terrace::data {

// Gives the description its times and their step, and replaces the instants of `plan.axes` by numbers of these times.
// Throws UserError with files and times for gaps (with `allow_gaps` the times that every variable has are taken), times
// that a variable has twice or lacks, and times that do not lie on one step.
void place_times(FieldsPlan& plan, bool allow_gaps);

// Finds the times of each split. Throws UserError for splits that are empty or overlap.
void place_splits(FieldsDescription& description,
                  const std::map<std::string, std::pair<std::string, std::string>>& dates);

}  // namespace terrace::data
