// Lists the elements in the order of their numbers.
#include "terrace/data/graphs/structures/elements.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

constexpr std::array<std::string_view, most_element + 1> element_symbols = {
    "X",  "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",  "S",
    "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As",
    "Se", "Br", "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn",
    "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho",
    "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po",
    "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md",
    "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};

}  // namespace

std::optional<uint8_t> atomic_number(std::string_view symbol) {
  if (symbol == "D" || symbol == "T") return uint8_t{1};
  const auto found = std::find(element_symbols.begin() + 1, element_symbols.end(), symbol);
  if (found == element_symbols.end()) return std::nullopt;
  return static_cast<uint8_t>(found - element_symbols.begin());
}

std::string_view element_symbol(int32_t atomic_number) {
  TERRACE_CHECK(atomic_number >= 0 && atomic_number <= most_element, "{} is no atomic number", atomic_number);
  return element_symbols[static_cast<size_t>(atomic_number)];
}

}  // namespace terrace::data
