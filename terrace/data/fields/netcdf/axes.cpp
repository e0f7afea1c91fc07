// Recognises axes by CF's attributes first, then by the names that files without them use.
#include "terrace/data/fields/netcdf/axes.h"

#include <set>
#include <string_view>

#include "terrace/base/text/lower_case.h"
#include "terrace/data/fields/netcdf/packing.h"
#include "terrace/data/fields/physical_units.h"

namespace terrace::data {
namespace {

AxisKind kind_by_attributes(const NetcdfFile& file, int variable) {
  const std::string units = file.text(variable, "units"), standard = file.text(variable, "standard_name");
  const std::string axis = file.text(variable, "axis");
  // Rotated and projected grids have axes Y and X too.
  if (are_degrees_north(units) || standard == "latitude") return AxisKind::latitude;
  if (are_degrees_east(units) || standard == "longitude") return AxisKind::longitude;
  if (units.find(" since ") != std::string::npos || standard == "time" || axis == "T") return AxisKind::time;
  static const std::set<std::string> of_levels = {"air_pressure", "height", "altitude", "depth", "model_level_number"};
  const bool has_direction = !file.text(variable, "positive").empty();
  if (axis == "Z" || has_direction || of_levels.contains(standard) || standard.starts_with("atmosphere_") ||
      hectopascals(units)) {
    return AxisKind::level;
  }
  return AxisKind::other;
}

AxisKind kind_by_name(const std::string& name) {
  const std::string lower = lower_case(name);
  if (lower == "lat" || lower == "latitude") return AxisKind::latitude;
  if (lower == "lon" || lower == "longitude") return AxisKind::longitude;
  if (lower == "time") return AxisKind::time;
  static const std::set<std::string> levels = {"level",  "lev",   "plev",  "levels",        "pressure",      "isobaric",
                                               "height", "depth", "sigma", "isobaricinhpa", "pressure_level"};
  return levels.contains(lower) ? AxisKind::level : AxisKind::other;
}

}  // namespace

const NetcdfAxis& NetcdfAxes::of(const NetcdfFile::Dimension& dimension) {
  const auto known = axes_.find(dimension.name);
  if (known != axes_.end()) return known->second;
  NetcdfAxis axis{.name = dimension.name, .size = dimension.size, .variable = file_.find(dimension.name)};
  const bool has_coordinate =
      axis.variable >= 0 && !file_.has_text(axis.variable) && file_.dimensions(axis.variable).size() == 1;
  if (has_coordinate) {
    axis.values = coordinate_values(file_, axis.variable);
    axis.kind = kind_by_attributes(file_, axis.variable);
    if (axis.kind == AxisKind::other) axis.kind = kind_by_name(axis.name);
  } else {
    axis.variable = -1;
  }
  return axes_.emplace(dimension.name, std::move(axis)).first->second;
}

}  // namespace terrace::data
