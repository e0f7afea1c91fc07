// Finds out what the dimensions of a NetCDF file are, by units, standard names and axes as CF has them, never by their
// order.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

enum class AxisKind { latitude, longitude, time, level, other };

// One dimension of a file with the values of its coordinate.
struct NetcdfAxis {
  std::string name = {};
  size_t size = 0;
  AxisKind kind = AxisKind::other;
  int variable = -1;                // the coordinate variable; -1 where there is none
  std::vector<double> values = {};  // none for dimensions without a coordinate
};

class NetcdfAxes {
 public:
  explicit NetcdfAxes(const NetcdfFile& file) : file_(file) {}
  // Reads the coordinate when the dimension is met for the first time. Throws UserError for a coordinate that cannot
  // be read.
  const NetcdfAxis& of(const NetcdfFile::Dimension& dimension);

 private:
  const NetcdfFile& file_;
  std::map<std::string, NetcdfAxis> axes_;
};

}  // namespace terrace::data
