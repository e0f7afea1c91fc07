// The time of a file that has one time and no dimension of times, as programs write that make a file for each time.
#pragma once

#include <string>

#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

// Returns the variable without dimensions that says when all fields of the file are, or -1. The time at which a
// forecast begins (CF's forecast_reference_time) is no such variable.
int single_time(const NetcdfFile& file);

// Returns whether the attribute `coordinates` of a variable names another one.
bool has_coordinate(const NetcdfFile& file, int variable, const std::string& name);

}  // namespace terrace::data
