// The symmetry operations of space groups that files name without listing them, by the tables of gemmi (MPL 2.0).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/data/graphs/formats/cif.h"

namespace terrace::data {

// A space group as a file names it; "" and 0 where the file does not. The Hall symbol counts before the name
// (Hermann-Mauguin, with :1, :2, :H or :R where it has them), and that before the number of the International Tables.
struct NamedSpaceGroup {
  std::string hall = {}, name = {};
  int64_t number = 0;
  double alpha = 90, gamma = 90;  // degrees of the cell, which tell R on hexagonal axes from R on rhombohedral ones
};

// Returns the operations of a group, with all centrings. Throws UserError for an unknown group, for one of another
// number than its name has, for one with two choices of the origin of which the file names none, and in builds without
// gemmi.
std::vector<SymmetryOperation> operations_of(const NamedSpaceGroup& group);

// Returns whether the build has the tables.
bool knows_space_groups();

}  // namespace terrace::data
