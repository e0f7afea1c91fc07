// Tells which values of the input files are still to be written, and which rank writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "terrace/data/fields/preparation/fields_plan.h"

namespace terrace::data {

// Times first .. end - 1, in the order of the file, of a piece of FieldsPlan::pieces.
struct PieceTimes {
  size_t piece = 0, first = 0, end = 0;
  bool operator==(const PieceTimes&) const = default;
};

// The times of pieces in ascending order, without overlaps.
using FieldsWork = std::vector<PieceTimes>;

FieldsWork all_work(const FieldsPlan& plan);
// Returns all work without what is done.
FieldsWork work_left(const FieldsWork& all, const FieldsWork& done);
// Adds times to what is done; calls may come in any order of the times.
void add_work(FieldsWork& done, const PieceTimes& more);
// Returns the number of values that are written for the work.
uint64_t values_of(const FieldsPlan& plan, const FieldsWork& work);
// Returns the rank's part of the work: ranks have the same number of values, up to one time of a piece, one after
// another in the order of the files.
FieldsWork work_of_rank(const FieldsPlan& plan, const FieldsWork& work, int64_t rank, int64_t ranks);

}  // namespace terrace::data
