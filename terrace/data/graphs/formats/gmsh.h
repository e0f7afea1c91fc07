// Reads meshes of Gmsh: MSH ASCII of the versions 4.1 and 2.2 (https://gmsh.info/doc/texinfo/gmsh.html, "MSH file
// format").
#pragma once

#include <string_view>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Reads the nodes in the order of the file, the edges of all elements in both directions, and each $NodeData by its
// name as a property of the nodes. Elements have their corners as nodes; those of higher order are refused. Values at
// elements and all other sections are left out. Throws UserError that names the line and the problem.
Structure parse_gmsh(std::string_view text);

}  // namespace terrace::data
