// Writes structures as extended XYZ, which parse_extended_xyz(), ASE and others read.
#pragma once

#include <string>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Returns one frame: the cell where there is one, the properties of the structure, and those of its atoms as columns.
// Numbers are written so that they are read back exactly. Edges and their properties are left out.
std::string extended_xyz(const Structure& structure);

}  // namespace terrace::data
