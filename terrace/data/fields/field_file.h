// Defines what a file of fields offers, whatever its format: variables on one grid at its times, read by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/fields/calendar.h"

namespace terrace::data {

// The coordinates of a grid in degrees: latitudes from south to north, longitudes from 0 up and below 360.
struct FieldGrid {
  std::vector<double> latitudes = {}, longitudes = {};
  size_t places() const { return latitudes.size() * longitudes.size(); }
};

// Returns an order of the values in which they ascend: longitudes by their value from 0 to 360. `sorted` gets the
// values in this order.
std::vector<size_t> ascending_order(std::vector<double> values, bool are_longitudes, std::vector<double>& sorted);

// The entry of a dimension at which a variable is read, where the dimension is neither of the grid, nor times or
// levels.
struct DimensionEntry {
  int64_t index = 0;
  std::string label = {};  // its coordinate, a number or text; "" where it has none
  bool operator==(const DimensionEntry&) const = default;
};

// The entry that a user wants of a dimension beside the grid, times and levels: by its index, or by its coordinate.
struct DimensionChoice {
  std::string dimension = {};
  std::optional<size_t> index = {};
  std::string label = {};  // the coordinate, where there is no index
};

// A variable of a file. Levels are in hPa where the file has pressures, otherwise in the units of the file.
struct FileVariable {
  std::string name = {};
  std::string units = {}, standard_name = {}, long_name = {};
  std::vector<double> levels = {};  // none where it has no dimension of levels
  std::string level_units = {};
  bool has_times = false;
  bool has_single_time = false;                        // its time is no dimension, so that it may be a constant as well
  std::map<std::string, DimensionEntry> entries = {};  // by dimension, where one was chosen of several
};

// A variable that lies on the grid and is not offered, and why: "era5.nc: t has the dimension member of size 3; ..".
struct LeftOutVariable {
  std::string name = {}, why = {};
};

// The contents of a file, without values.
struct FileContents {
  std::filesystem::path path = {};
  FieldGrid grid = {};
  Calendar calendar = Calendar::standard;
  std::vector<int64_t> times = {};  // instants, in the order of the file
  std::vector<FileVariable> variables = {};
  std::vector<LeftOutVariable> left_out = {};
  std::vector<std::string> other_dimensions = {};  // of variables on the grid: neither of the grid nor times or levels
};

// The part of a variable that is read.
struct FieldSlab {
  size_t variable = 0;                 // of FileContents::variables
  size_t first_time = 0, times = 1;    // where the variable has times
  size_t first_level = 0, levels = 1;  // where it has levels
};

// An open file. Its functions throw UserError that names the file.
class FieldFile {
 public:
  virtual ~FieldFile() = default;
  virtual const FileContents& contents() const = 0;
  // Reads values [times, levels, latitudes, longitudes] in the order of the grid, in physical units; NaN where the file
  // says that a value is missing.
  virtual void read(const FieldSlab& slab, std::vector<float>& values) = 0;
  // Returns the number of times that are best read together, such as those of a compressed chunk.
  virtual size_t times_in_chunk(size_t variable) const = 0;
};

std::unique_ptr<FieldFile> open_netcdf(const std::filesystem::path& path, const std::vector<DimensionChoice>& choices);

// Opens ClimaX's shards where the name ends with .npz, otherwise NetCDF.
std::unique_ptr<FieldFile> open_field_file(const std::filesystem::path& path,
                                           const std::vector<DimensionChoice>& choices);

}  // namespace terrace::data
