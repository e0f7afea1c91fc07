// Finds what has a unit, and converts it.
#include "terrace/data/graphs/structures/declared_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::data {
namespace {

// Visits the properties of structures and atoms.
template <typename Visit>
void for_properties(Structure& structure, const Visit& visit) {
  for (Properties* properties : {&structure.of_structure, &structure.of_atoms}) {
    for (auto& [name, property] : *properties) visit(name, property);
  }
}

void convert_lengths(double factor, Structure& structure) {
  for (double& position : structure.positions) position *= factor;
  for (Vector3& vector : structure.cell.vectors) {
    for (double& component : vector) component *= factor;
  }
}

void convert(const std::string& of, const std::string& unit, Structure& structure) {
  if (of == "length") {
    structure.units[of] = unit;
    return convert_lengths(checked_standard_units_in(of, PhysicalQuantity::length, unit), structure);
  }
  bool is_named = false;
  for_properties(structure, [&](const std::string& name, const PropertyValues&) { is_named = is_named || name == of; });
  const PhysicalQuantity quantity = quantity_of(of);
  checked_standard_units_in(of, quantity, unit);
  for_properties(structure, [&](const std::string& name, PropertyValues& property) {
    if (is_named ? name != of : quantity_of(name) != quantity) return;
    convert_to_standard(name, property, unit);
    structure.units[name] = unit;
    if (checked_standard_units_in(name, quantity, unit) == 1) return;
    structure.notes.push_back(fmt::format("{} is converted from {} to {}", name, unit, standard_unit(quantity)));
  });
}

std::string examples_of(PhysicalQuantity quantity) {
  return quantity == PhysicalQuantity::forces   ? "hartree/bohr, eV/angstrom or another"
         : quantity == PhysicalQuantity::stress ? "hartree/bohr^3, eV/angstrom^3, GPa or another"
                                                : "hartree, eV or another";
}

// Throws UserError where an energy or forces are converted and a property beside them has no unit: forces in an unknown
// unit are no derivative of an energy in hartree, and two energies would be in different units.
void check_units_beside(Structure& structure) {
  std::map<PhysicalQuantity, std::pair<std::string, std::string>> converted;  // a name and its unit
  for (const auto& [name, unit] : structure.units) {
    const PhysicalQuantity quantity = quantity_of(name);
    if (quantity != PhysicalQuantity::energy && quantity != PhysicalQuantity::forces) continue;
    if (checked_standard_units_in(name, quantity, unit) != 1) converted.try_emplace(quantity, name, unit);
  }
  if (converted.empty()) return;
  for_properties(structure, [&](const std::string& name, const PropertyValues&) {
    const PhysicalQuantity quantity = quantity_of(name);
    if (quantity == PhysicalQuantity::other || structure.units.contains(name)) return;
    // The property that ASE writes as free_energy is in the unit of energy.
    const bool is_another = converted.contains(quantity);
    const auto& [beside, unit] = is_another ? converted.at(quantity) : converted.begin()->second;
    throw UserError::of(
        "{0} is in {1}, and {2} has no unit; declare it too, by {2}-unit=UNIT in the file or --units {2}=UNIT, where "
        "UNIT is {3}",
        beside, unit, name, is_another ? unit + " if it is in the same" : examples_of(quantity));
  });
}

}  // namespace

std::optional<std::string> name_in_unit_key(std::string_view key) {
  const std::string small = lower_case(key);
  for (const std::string_view end : {"-unit", "_unit", "-units", "_units"}) {
    if (small.ends_with(end)) return std::string(key.substr(0, key.size() - end.size()));
  }
  return std::nullopt;
}

std::optional<std::string> property_of_unit_key(std::string_view key) {
  std::optional<std::string> of = name_in_unit_key(key);
  if (!of) return std::nullopt;
  static const std::set<std::string, std::less<>> lengths = {
      "length", "lengths", "pos", "position", "positions", "coordinate", "coordinates", "cell", "lattice"};
  if (lengths.contains(lower_case(*of))) return "length";
  return quantity_of(*of) == PhysicalQuantity::other ? std::nullopt : of;
}

void convert_declared_units(const std::map<std::string, std::string>& declared, Structure& structure) {
  for (const auto& [of, unit] : declared) convert(of, unit, structure);
  check_units_beside(structure);
}

std::string DeclaredUnits::add(const Structure& structure, const std::string& place, bool is_in_angstrom) {
  for (const auto& [name, unit] : structure.units) {
    if (name == "length" || quantity_of(name) != PhysicalQuantity::other) continue;
    const auto [known, is_first] = of_others_.try_emplace(name, unit);
    if (is_first) first_of_others_[name] = place;
    if (known->second == unit) continue;
    return fmt::format("{} is in {}, and in {} in {}; convert them to one unit", name, unit, first_of_others_[name],
                       known->second);
  }
  std::string problem = is_in_angstrom ? "" : add_converted("length", structure, place);
  for (const Properties* properties : {&structure.of_structure, &structure.of_atoms}) {
    for (const auto& [name, property] : *properties) {
      if (problem.empty() && quantity_of(name) != PhysicalQuantity::other)
        problem = add_converted(name, structure, place);
    }
  }
  return problem;
}

std::string DeclaredUnits::add_converted(const std::string& name, const Structure& structure,
                                         const std::string& place) {
  Found& found = converted_[name];
  const PhysicalQuantity quantity = name == "length" ? PhysicalQuantity::length : quantity_of(name);
  const auto own = structure.units.find(name);
  if (own == structure.units.end()) {
    if (found.undeclared.empty()) found.undeclared = place;
  } else if (found.converted.empty() && standard_units_in(quantity, own->second) != 1) {
    found.converted = place;
    found.unit = own->second;
  }
  if (found.undeclared.empty() || found.converted.empty()) return "";
  const std::string both = own == structure.units.end()
                               ? fmt::format("has no unit, and in {} it is in {}", found.converted, found.unit)
                               : fmt::format("is in {}, and in {} it has no unit", own->second, found.undeclared);
  return fmt::format(
      "{0} {1}; declare it in all, by {0}-unit={2} in files that are in {2}, or by --units {0}={3} where all are in it",
      name, both, standard_unit(quantity), found.unit);
}

}  // namespace terrace::data
