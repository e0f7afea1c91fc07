// Finds what makes a structure useless for training.
#pragma once

#include <string>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

struct StructureRules {
  std::vector<std::string> labels = {};  // properties that every structure has to have
  double least_distance = 0.5;           // angstrom, between atoms; nodes that are no atoms may lie anywhere
};

// Returns a sentence for each kind of problem: no atoms, a cell with a problem_of(), positions that are not finite,
// infinite values, two atoms (or an atom and its own image) nearer than the least distance, a label that is missing,
// edges of nodes that are not there.
std::vector<std::string> problems_of(const Structure& structure, const StructureRules& rules);

}  // namespace terrace::data
