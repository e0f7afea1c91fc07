// Units that files or users declare of energies, forces, stresses, virials and lengths: what has them becomes eV and
// angstrom.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "terrace/data/graphs/structure.h"

namespace terrace::data {

// The name of what has the unit that such a key declares: "energy" of energy-unit, REF_stress_units and the like;
// "length" of length-unit, pos-unit, cell-unit and the like. No value for other keys.
std::optional<std::string> property_of_unit_key(std::string_view key);

// Multiplies what has the declared units: the property of that name, or where there is none all of its quantity; a
// length is that of positions and cell. Throws UserError for units that are not known, and where an energy or forces
// are converted and others beside them have no declared unit, since the one is to be a derivative of the other.
void convert_declared_units(const std::map<std::string, std::string>& declared, Structure& structure);

}  // namespace terrace::data
