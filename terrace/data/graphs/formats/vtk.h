// Reads meshes of VTK: legacy ASCII files with an unstructured grid, of the versions 1 to 5
// (https://docs.vtk.org/en/latest/design_documents/VTKFileFormats.html, "Simple legacy formats").
#pragma once

#include <string_view>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Reads the points, the edges of all cells in both directions, and the data of points by their names as properties of
// the nodes. Cells have their corners as nodes; others are refused. Data of cells are left out. Throws UserError that
// names the line and the problem.
Structure parse_vtk(std::string_view text);

}  // namespace terrace::data
