// Tells which dimension of a variable is which axis of a field, and where the variable is read along the others.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/netcdf/axes.h"
#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

struct FieldDimensions {
  std::vector<AxisKind> kinds = {};  // of each dimension; other: read at one entry
  std::vector<size_t> entries = {};  // of each dimension of the kind other
  const NetcdfAxis *time = nullptr, *level = nullptr, *latitude = nullptr, *longitude = nullptr;  // null: none
  std::map<std::string, DimensionEntry> chosen = {};  // of dimensions of the kind other with several entries
  std::vector<std::string> others = {};               // the dimensions of the kind other
  std::string problem = {};                           // why the variable cannot be read, or ""

  bool lies_on_grid() const { return latitude != nullptr && longitude != nullptr; }
};

// Dimensions with one entry, and those for which there is a choice, are of the kind other, except for the only one of
// latitudes, longitudes, times or levels. Throws UserError for a coordinate that cannot be read.
FieldDimensions field_dimensions(const NetcdfFile& file, NetcdfAxes& axes,
                                 const std::vector<NetcdfFile::Dimension>& dimensions,
                                 const std::vector<DimensionChoice>& choices);

}  // namespace terrace::data
