// Energies, forces, stresses and virials among the properties of structures, and the units in which files have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

enum class PhysicalQuantity { other, energy, forces, stress, virial, length };

// Returns the quantity by the name of a property: energy, forces, stress or virial, also with a word such as REF_, dft_
// or total_ before or behind it, in capitals or not.
PhysicalQuantity quantity_of(std::string_view name);

// Returns eV, eV/angstrom, eV/angstrom^3 (of stress), eV (of a virial) and angstrom; "" for other.
std::string_view standard_unit(PhysicalQuantity quantity);

// Returns the number by which a number in the unit is multiplied to get the standard unit of the quantity. Units are
// products and quotients of eV, meV, hartree, rydberg, kcal/mol, kJ/mol, J; angstrom, bohr, nm, pm; Pa to GPa, bar to
// Mbar, atm; "a.u." of each. CODATA 2018. No value for an unknown unit, or one of another quantity.
std::optional<double> standard_units_in(PhysicalQuantity quantity, std::string_view unit);

// Returns standard_units_in() of a known unit, or throws UserError that begins with `name` and says what is known.
double checked_standard_units_in(std::string_view name, PhysicalQuantity quantity, std::string_view unit);

// Returns what is wrong with the unit of a derivative (forces, stress or virial) of something with the other unit,
// where lengths are angstrom; "" where nothing is wrong, or where neither unit is known to be that of an energy or its
// derivative.
std::string problem_of_derivative(std::string_view unit_of_energy, std::string_view unit, PhysicalQuantity derivative);

// Returns the unit of a label of stress by that of its property: for a virial its unit over angstrom^3. "" where none
// is known.
std::string unit_of_stress(std::string_view property, std::string_view unit);

// Multiplies a property by the number that its unit has in standard ones, unless that is 1.
void convert_to_standard(std::string_view name, PropertyValues& property, std::string_view unit);

// Returns a stress or virial with six numbers in ASE's order (xx, yy, zz, yz, xz, xy) as the nine of a symmetric
// tensor.
std::vector<double> full_tensor(const std::vector<double>& voigt);

// Returns the factor for the numbers of the label of a stress, by the name of its property: 1, or for a virial -1 /
// volume. 0 where the structure has no volume, and therefore no stress.
double stress_in_label(std::string_view property, const Cell& cell);

}  // namespace terrace::data
