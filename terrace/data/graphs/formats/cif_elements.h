// The elements that labels of sites in CIF mean, and the hydrogens that a file names without places.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::data {

// The number of atoms of each element in a formula such as "Al2 P O8 H5"; deuterium is hydrogen. No value for what is
// not of this form.
using CifFormula = std::map<uint8_t, double>;
std::optional<CifFormula> formula_of_text(std::string_view text);

// Returns the element of a type symbol such as "Fe2+": by its one or two letters, in capitals or not, else by the first
// one where the second is a capital. Throws UserError where they are no element.
uint8_t element_of_type(std::string_view type);

// Returns the element of a label such as "Fe1", "FE1" or "O1a". Labels are names: where two elements are possible, or
// the one that the label begins with is not in the formula, as W of the water "Wat", the label is refused by UserError.
uint8_t element_of_label(std::string_view label, const std::optional<CifFormula>& formula);

}  // namespace terrace::data
