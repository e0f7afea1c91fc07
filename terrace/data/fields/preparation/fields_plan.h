// Looks at all input files before any value is read: which file has which variables, levels and times, and where they
// go in the dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// The fields that a user wants of the files.
struct FieldsSelection {
  std::vector<std::string> variables = {};        // "z", for all its levels, or "z_500"; none: all with times
  std::vector<double> levels = {};                // of variables that have levels; none: all
  std::vector<std::string> constants = {};        // none: all without times
  std::map<std::string, std::string> units = {};  // in place of those in the files, by variable
  std::vector<DimensionChoice> dimensions = {};   // the entries of dimensions that fields do not have
  bool allow_gaps = false;                        // between times
  std::map<std::string, std::pair<std::string, std::string>> splits = {};  // first and last date of each
};

// A variable of a file that is read. The levels between the first and the last wanted one are read together.
struct FieldPiece {
  size_t file = 0;      // of FieldsPlan::files
  size_t variable = 0;  // of the file
  size_t first_level = 0;
  std::vector<int64_t> outputs = {};  // for each level read its number in the dataset; -1: not wanted
};

struct FieldsPlan {
  FieldsDescription description = {};  // without moments and arrays
  std::vector<std::filesystem::path> files = {};
  std::vector<FieldPiece> pieces = {};          // by file
  std::vector<FieldPiece> constants = {};       // outputs are numbers of constants; several files may have one
  std::vector<LeftOutVariable> left_out = {};   // each name once; none where variables were named
  std::vector<std::vector<int64_t>> axes = {};  // for each time of a file its number in the dataset; -1: left out
  std::vector<size_t> axis_of_file = {};
};

// `look` is called with the number of files done, and may throw to stop. Throws UserError with every problem.
FieldsPlan plan_fields(const std::vector<std::filesystem::path>& files, const FieldsSelection& selection,
                       const std::function<void(size_t)>& look);

}  // namespace terrace::data
