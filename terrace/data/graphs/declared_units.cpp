// Finds what has a unit, and converts it.
#include "terrace/data/graphs/declared_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/graphs/quantities.h"

namespace terrace::data {
namespace {

// Of structures and atoms.
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
    return convert_lengths(checked_standard_units_in(of, Quantity::length, unit), structure);
  }
  bool is_named = false;
  for_properties(structure, [&](const std::string& name, const PropertyValues&) { is_named = is_named || name == of; });
  const Quantity quantity = quantity_of(of);
  checked_standard_units_in(of, quantity, unit);
  for_properties(structure, [&](const std::string& name, PropertyValues& property) {
    if (is_named ? name != of : quantity_of(name) != quantity) return;
    convert_to_standard(name, property, unit);
    structure.units[name] = unit;
    if (checked_standard_units_in(name, quantity, unit) == 1) return;
    structure.notes.push_back(fmt::format("{} is converted from {} to {}", name, unit, standard_unit(quantity)));
  });
}

// An energy in hartree beside forces in an unknown unit is no derivative and its integral.
void check_units_beside(Structure& structure) {
  bool is_converted = false;
  std::string converted;
  for (const auto& [name, unit] : structure.units) {
    const Quantity quantity = quantity_of(name);
    if (quantity != Quantity::energy && quantity != Quantity::forces) continue;
    if (checked_standard_units_in(name, quantity, unit) == 1) continue;
    is_converted = true;
    converted = name + " is in " + unit;
  }
  if (!is_converted) return;
  for_properties(structure, [&](const std::string& name, const PropertyValues&) {
    if (quantity_of(name) == Quantity::other || structure.units.contains(name)) return;
    throw UserError::of("{}, and {} has no unit; declare its unit too ({}-unit={} in a file, or --units {}={})",
                        converted, name, name, standard_unit(quantity_of(name)), name,
                        standard_unit(quantity_of(name)));
  });
}

}  // namespace

std::optional<std::string> property_of_unit_key(std::string_view key) {
  std::string small(key);
  std::ranges::transform(small, small.begin(), [](unsigned char letter) { return std::tolower(letter); });
  for (const std::string_view end : {"-unit", "_unit", "-units", "_units"}) {
    if (!small.ends_with(end)) continue;
    const std::string of(key.substr(0, key.size() - end.size()));
    static const std::set<std::string, std::less<>> lengths = {
        "length", "lengths", "pos", "position", "positions", "coordinate", "coordinates", "cell", "lattice"};
    if (lengths.contains(small.substr(0, of.size()))) return "length";
    return quantity_of(of) == Quantity::other ? std::nullopt : std::optional(of);
  }
  return std::nullopt;
}

void convert_declared_units(const std::map<std::string, std::string>& declared, Structure& structure) {
  for (const auto& [of, unit] : declared) convert(of, unit, structure);
  check_units_beside(structure);
}

}  // namespace terrace::data
