// Reads the attributes that say how values are stored.
#include "terrace/data/fields/netcdf/packing.h"

#include <netcdf.h>

#include <optional>

namespace terrace::data {
namespace {

// The number that the library fills a variable with where nothing was written; CF takes it for missing too.
std::optional<double> default_fill(int type) {
  switch (type) {
    case NC_FLOAT:
      return NC_FILL_FLOAT;
    case NC_DOUBLE:
      return NC_FILL_DOUBLE;
    case NC_SHORT:
      return NC_FILL_SHORT;
    case NC_INT:
      return NC_FILL_INT;
    default:
      return std::nullopt;
  }
}

}  // namespace

float Packing::value_of(double stored) const {
  if (stored < 0 && wraps_at > 0) stored += wraps_at;
  for (const double none : missing) {
    if (stored == none || (is_float && static_cast<float>(stored) == static_cast<float>(none))) {
      return std::numeric_limits<float>::quiet_NaN();
    }
  }
  if (!(stored >= least && stored <= most)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(stored * scale + offset);
}

Packing packing_of(const NetcdfFile& file, int variable) {
  Packing packing;
  const int type = file.type(variable);
  packing.is_float = type == NC_FLOAT;
  for (const char* attribute : {"_FillValue", "missing_value"}) {
    for (const double none : file.numbers(variable, attribute)) packing.missing.push_back(none);
  }
  if (file.numbers(variable, "_FillValue").empty()) {
    if (const auto fill = default_fill(type)) packing.missing.push_back(*fill);
  }
  if (const auto range = file.numbers(variable, "valid_range"); range.size() == 2) {
    packing.least = range[0];
    packing.most = range[1];
  }
  if (const auto least = file.numbers(variable, "valid_min"); !least.empty()) packing.least = least[0];
  if (const auto most = file.numbers(variable, "valid_max"); !most.empty()) packing.most = most[0];
  if (const auto scale = file.numbers(variable, "scale_factor"); !scale.empty()) packing.scale = scale[0];
  if (const auto offset = file.numbers(variable, "add_offset"); !offset.empty()) packing.offset = offset[0];
  if (file.text(variable, "_Unsigned") == "true") {
    if (type == NC_BYTE) packing.wraps_at = 256;
    if (type == NC_SHORT) packing.wraps_at = 65536;
  }
  return packing;
}

}  // namespace terrace::data
