// Reads crystals of CIF (Crystallographic Information File 1.1, Hall, Allen and Brown 1991): cell, symmetry operations
// and sites give all atoms of the cell.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// A data block: each tag, in lower case, with its values, of which a tag outside of loops has one.
struct CifBlock {
  std::string name = {};
  std::map<std::string, std::vector<std::string>> tags = {};
  std::map<std::string, std::string> problems = {};  // of tags in loops whose rows are not full
};

// Reads the data blocks of a text. Comments are left out, quotes and the semicolons of long texts taken off; a quote
// that is not closed ends with its line. Throws UserError that names the line where the text is no CIF.
std::vector<CifBlock> parse_cif(std::string_view text);

// A symmetry operation such as "1/2-x, y+0.25, z": fractions become rotation * fractions + translation.
struct SymmetryOperation {
  std::array<std::array<double, 3>, 3> rotation = {};
  std::array<double, 3> translation = {};
  bool operator==(const SymmetryOperation&) const = default;
};
// Reads a symmetry operation. Throws UserError for anything else.
SymmetryOperation parse_symmetry_operation(std::string_view text);

// Images of a site whose fractions differ by less, modulo 1, are one atom, as ASE has it: rounded coordinates of
// special positions, such as 0.3333, need a tolerance.
inline constexpr double same_site_fraction = 1e-3;

bool has_sites(const CifBlock& block);

// Returns all atoms of the cell, the images of a site one after another in the order of the operations, with fractions
// in [0, 1); periodic in all directions. The operations are those listed, or those of the space group by its Hall
// symbol, name or number (space_groups.h); sites are given by fractions, or else Cartesian. The element is the type
// symbol, or where there is none that of the label (cif_elements.h). Hydrogens that the formula or the sites name
// without places are left out with a note. Throws UserError with the tag for what is missing or no number, and for
// sites that are only partly occupied (no structure of whole atoms describes them).
Structure crystal_of(const CifBlock& block);

}  // namespace terrace::data
