// Units that files or users declare of energies, forces, stresses, virials and lengths: what has them becomes eV and
// angstrom.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Returns the name before -unit, _units and the like; no value where the key has no such end.
std::optional<std::string> name_in_unit_key(std::string_view key);

// Returns the name of what has the unit that such a key declares: "energy" for energy-unit, "REF_stress" for
// REF_stress_units; "length" for length-unit, pos-unit, cell-unit and the like. No value for other keys.
std::optional<std::string> property_of_unit_key(std::string_view key);

// Multiplies what has the declared units: the property of that name, or where there is none all properties of its
// quantity; a length is that of positions and cell. Throws UserError for units that are not known, and where an energy
// or forces are converted and others beside them have no declared unit, since the one is to be a derivative of the
// other.
void convert_declared_units(const std::map<std::string, std::string>& declared, Structure& structure);

// The units of all structures of a dataset, of which each property has one.
class DeclaredUnits {
 public:
  // Returns a sentence where the structure, whose name for messages is `place`, does not go together with those before
  // it: a property is in another unit, or was converted in one of them and has no declared unit in the other. Lengths
  // of a file whose format has angstrom need no unit.
  std::string add(const Structure& structure, const std::string& place, bool is_in_angstrom);
  // Returns the units of properties that are not converted, by name.
  const std::map<std::string, std::string>& of_others() const { return of_others_; }

 private:
  // Places of the first structures in which a property was converted, and in which it has no declared unit.
  struct Found {
    std::string converted = {}, unit = {};  // `unit`: the unit from which it was converted
    std::string undeclared = {};
  };
  std::string add_converted(const std::string& name, const Structure& structure, const std::string& place);

  std::map<std::string, Found, std::less<>> converted_;
  std::map<std::string, std::string> of_others_, first_of_others_;
};

}  // namespace terrace::data
