// The contents of many files of fields on one grid, without their values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/fields/field_file.h"

namespace terrace::data {

struct ScannedFile {
  std::filesystem::path path = {};
  std::vector<FileVariable> variables = {};
  std::vector<LeftOutVariable> left_out = {};
  size_t axis = 0;  // of ScannedFields::axes
};

struct ScannedFields {
  FieldGrid grid = {};
  Calendar calendar = Calendar::standard;
  std::vector<ScannedFile> files = {};
  // The times of files, each list of times once: many files have the same ones.
  std::vector<std::vector<int64_t>> axes = {};
};

// Files whose grids or calendars differ, that have a time twice, or all of whose variables are left out are problems,
// and choices of dimensions that no file has. Throws UserError with all of them.
ScannedFields scan_fields(const std::vector<std::filesystem::path>& files, const std::vector<DimensionChoice>& choices,
                          const std::function<void(size_t)>& look);

// Returns whether all coordinates are equal as far as fp32 keeps them.
bool are_same_grid(const FieldGrid& a, const FieldGrid& b);
// Returns the grid in words: "73 latitudes from -90 to 90 and 144 longitudes from 0 to 357.5".
std::string grid_text(const FieldGrid& grid);
// Returns whether instants of the two calendars mean the same; calendars without times agree with any.
bool calendars_agree(Calendar a, const std::vector<int64_t>& times_of_a, Calendar b,
                     const std::vector<int64_t>& times_of_b);

// Returns the name of a variable at a level: "z_500" for z at 500 hPa.
std::string name_at_level(const std::string& variable, double level);
// Returns the name in the dataset for each level of a variable; the variable's own name where it has no levels.
std::vector<std::string> field_names(const FileVariable& variable);

// The variables of all files, by name in the order in which they occur, with the levels of all files, ascending.
struct KnownVariable {
  FileVariable first = {};  // as in the first file that has it
  size_t first_file = 0;
  std::vector<double> levels = {};
  bool without_levels = false;  // the variable has none in some file
};
std::vector<KnownVariable> variables_of(const ScannedFields& scanned);

}  // namespace terrace::data
