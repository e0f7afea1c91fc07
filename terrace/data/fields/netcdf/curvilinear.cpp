// Looks at standard names and grid mappings, and compares coordinates of two dimensions with the axes.
#include "terrace/data/fields/netcdf/curvilinear.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/data/fields/netcdf/packing.h"
#include "terrace/data/fields/physical_units.h"

namespace terrace::data {
namespace {

constexpr double same_degrees = 1e-3;     // coordinates in fp32 are off by less
constexpr double largest_degrees = 1000;  // anything above marks a missing coordinate

constexpr std::string_view way_out =
    "only grids of latitudes and longitudes are read; interpolate to one, for example with cdo remapbil,r360x180";

bool has_latitudes(const NetcdfFile& file, int variable) {
  return are_degrees_north(file.text(variable, "units")) || file.text(variable, "standard_name") == "latitude";
}

bool has_longitudes(const NetcdfFile& file, int variable) {
  return are_degrees_east(file.text(variable, "units")) || file.text(variable, "standard_name") == "longitude";
}

bool is_of_rotated_grid(const NetcdfFile& file, int variable) {
  const std::string name = variable < 0 ? "" : file.text(variable, "standard_name");
  return name == "grid_latitude" || name == "grid_longitude";
}

// Returns the name of the mapping that a variable's attribute grid_mapping leads to, such as
// rotated_latitude_longitude.
std::string mapping_of(const NetcdfFile& file, int variable) {
  std::string name = file.text(variable, "grid_mapping");
  name = name.substr(0, name.find_first_of(": "));
  const int mapping = name.empty() ? -1 : file.find(name);
  return mapping < 0 ? "" : file.text(mapping, "grid_mapping_name");
}

// A place where a coordinate [rows, columns] differs from the axis.
struct Difference {
  size_t row = 0, column = 0;
  double value = 0, of_axis = 0;
};

std::optional<Difference> first_difference(const NetcdfFile& file, int coordinate, const NetcdfAxis& latitude,
                                           const NetcdfAxis& longitude, bool are_latitudes) {
  const std::vector<NetcdfFile::Dimension> dimensions = file.dimensions(coordinate);
  const bool by_rows = dimensions[0].name == latitude.name;
  const std::vector<double> values = coordinate_values(file, coordinate);
  for (size_t row = 0; row < latitude.size; ++row) {
    for (size_t column = 0; column < longitude.size; ++column) {
      const double value = values[by_rows ? row * longitude.size + column : column * latitude.size + row];
      const double of_axis = are_latitudes ? latitude.values[row] : longitude.values[column];
      if (!(std::abs(value) < largest_degrees)) continue;
      const double apart = are_latitudes ? value - of_axis : std::remainder(value - of_axis, 360.0);
      if (std::abs(apart) > same_degrees) return Difference{row, column, value, of_axis};
    }
  }
  return std::nullopt;
}

}  // namespace

void check_regular_grid(const NetcdfFile& file, int variable, const NetcdfAxis& latitude, const NetcdfAxis& longitude) {
  const std::string path = file.path().string(), name = file.name(variable);
  for (const NetcdfAxis* axis : {&latitude, &longitude}) {
    if (!is_of_rotated_grid(file, axis->variable)) continue;
    throw UserError::of(
        "{}: {} lies on a rotated or curvilinear grid, since the standard name of its axis {} is {}; {}", path, name,
        axis->name, file.text(axis->variable, "standard_name"), way_out);
  }
  for (int other = 0; other < file.variables(); ++other) {
    if (other == latitude.variable || other == longitude.variable || file.has_text(other)) continue;
    const bool are_latitudes = has_latitudes(file, other);
    if (!are_latitudes && !has_longitudes(file, other)) continue;
    const std::vector<NetcdfFile::Dimension> dimensions = file.dimensions(other);
    const auto are = [&](const NetcdfAxis& first, const NetcdfAxis& second) {
      return dimensions[0].name == first.name && dimensions[1].name == second.name;
    };
    if (dimensions.size() != 2 || !(are(latitude, longitude) || are(longitude, latitude))) continue;
    const auto differs = first_difference(file, other, latitude, longitude, are_latitudes);
    if (!differs) continue;
    throw UserError::of(
        "{}: {} lies on a curvilinear grid: at row {} and column {}, from 1, {} is {:g} and {} is {:g}; {}", path, name,
        differs->row + 1, differs->column + 1, file.name(other), differs->value,
        are_latitudes ? latitude.name : longitude.name, differs->of_axis, way_out);
  }
}

void check_grid_mapping(const NetcdfFile& file, int variable) {
  const std::string mapping = mapping_of(file, variable);
  if (!mapping.starts_with("rotated_")) return;
  throw UserError::of("{}: {} lies on a rotated grid, since its grid mapping is {}; {}", file.path().string(),
                      file.name(variable), mapping, way_out);
}

std::string curvilinear_reason(const NetcdfFile& file) {
  for (int variable = 0; variable < file.variables(); ++variable) {
    if (file.has_text(variable)) continue;
    if (is_of_rotated_grid(file, variable)) {
      return fmt::format(", since {} has the standard name {}, of a rotated grid", file.name(variable),
                         file.text(variable, "standard_name"));
    }
    if (has_latitudes(file, variable) && file.dimensions(variable).size() > 1) {
      return fmt::format(", since its latitudes {} have {} dimensions, as on a curvilinear grid", file.name(variable),
                         file.dimensions(variable).size());
    }
  }
  return "";
}

}  // namespace terrace::data
