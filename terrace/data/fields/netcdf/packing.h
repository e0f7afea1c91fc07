// Missing and packed values of NetCDF variables as CF defines them.
#pragma once

#include <limits>
#include <vector>

#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

// How the stored numbers of a variable become physical values.
struct Packing {
  std::vector<double> missing = {};  // stored numbers that stand for none
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  double scale = 1, offset = 0;
  double wraps_at = 0;  // what a negative number of an unsigned variable lacks; 0: the type has its own sign
  bool is_float = false;

  float value_of(double stored) const;  // NaN where it is missing
};

Packing packing_of(const NetcdfFile& file, int variable);

}  // namespace terrace::data
