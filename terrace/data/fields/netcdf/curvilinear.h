// Tells grids whose places lie where latitudes and longitudes cross from curvilinear ones: rotated, tripolar and
// others.
#pragma once

#include <string>

#include "terrace/data/fields/netcdf/axes.h"
#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

// Throws UserError where the axes of a variable, which have degrees of latitude and longitude, do not say where its
// places lie: where CF's attributes call the axes coordinates of a rotated grid, or where the file has latitudes or
// longitudes of two dimensions that differ from the axes. Ocean models write axes of that kind with units of
// degrees_north. The coordinates are read: one call is enough for all variables on the same axes.
void check_regular_grid(const NetcdfFile& file, int variable, const NetcdfAxis& latitude, const NetcdfAxis& longitude);

// Throws UserError where the grid mapping of a variable is that of a rotated grid. Each variable has its own mapping.
void check_grid_mapping(const NetcdfFile& file, int variable);

// Returns a reason for the message about a file without a regular grid: ", since .." where the file has latitudes of
// two dimensions or coordinates of a rotated grid, else "".
std::string curvilinear_reason(const NetcdfFile& file);

}  // namespace terrace::data
