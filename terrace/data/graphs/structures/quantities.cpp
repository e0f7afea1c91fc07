// Knows quantities by names, and units by the products of a table.
#include "terrace/data/graphs/structures/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/data/graphs/formats/text_numbers.h"

namespace terrace::data {
namespace {

// Values of CODATA 2018.
constexpr double electronvolts_of_hartree = 27.211386245988, angstrom_of_bohr = 0.529177210903;
constexpr double electronvolts_of_joule = 1 / 1.602176634e-19, avogadro = 6.02214076e23;
constexpr double electronvolts_of_pascal = electronvolts_of_joule * 1e-30;  // in eV angstrom^-3

// A unit as a number of eV^energy angstrom^length.
struct UnitFacts {
  std::string_view name;
  double factor;
  int energy, length;
};
constexpr std::array<UnitFacts, 28> unit_facts = {{
    {"ev", 1, 1, 0},
    {"mev", 1e-3, 1, 0},
    {"kev", 1e3, 1, 0},
    {"electronvolt", 1, 1, 0},
    {"hartree", electronvolts_of_hartree, 1, 0},
    {"ha", electronvolts_of_hartree, 1, 0},
    {"eh", electronvolts_of_hartree, 1, 0},
    {"rydberg", electronvolts_of_hartree / 2, 1, 0},
    {"ry", electronvolts_of_hartree / 2, 1, 0},
    {"kcal", 4184 * electronvolts_of_joule, 1, 0},
    {"cal", 4.184 * electronvolts_of_joule, 1, 0},
    {"kj", 1e3 * electronvolts_of_joule, 1, 0},
    {"j", electronvolts_of_joule, 1, 0},
    {"mol", avogadro, 0, 0},
    {"angstrom", 1, 0, 1},
    {"ang", 1, 0, 1},
    {"a", 1, 0, 1},
    {"bohr", angstrom_of_bohr, 0, 1},
    {"a0", angstrom_of_bohr, 0, 1},
    {"nm", 10, 0, 1},
    {"pm", 0.01, 0, 1},
    {"gpa", 1e9 * electronvolts_of_pascal, 1, -3},
    {"kpa", 1e3 * electronvolts_of_pascal, 1, -3},
    {"pa", electronvolts_of_pascal, 1, -3},
    {"bar", 1e5 * electronvolts_of_pascal, 1, -3},
    {"kbar", 1e8 * electronvolts_of_pascal, 1, -3},
    {"kb", 1e8 * electronvolts_of_pascal, 1, -3},
    {"atm", 101325 * electronvolts_of_pascal, 1, -3},
}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::optional<UnitFacts> facts_of_word(std::string_view word) {
  // Mega and milli differ by the capital alone.
  if (word == "MPa") return UnitFacts{word, 1e6 * electronvolts_of_pascal, 1, -3};
  if (word == "Mbar") return UnitFacts{word, 1e11 * electronvolts_of_pascal, 1, -3};
  if (word == "MeV") return UnitFacts{word, 1e6, 1, 0};
  std::string small = lower_case(word);
  for (const std::string_view whole : {"angstroms", "electronvolts", "hartrees"}) {
    if (small == whole) small.pop_back();
  }
  if (small == "mpa" || small == "mbar") return std::nullopt;
  const auto found = std::ranges::find(unit_facts, std::string_view(small), &UnitFacts::name);
  return found == unit_facts.end() ? std::nullopt : std::optional(*found);
}

// A product such as "kcal mol^-1 A^-1", "kcal/mol/A", "kcal/(mol A)" or "eV/Å^3".
class UnitProduct {
 public:
  explicit UnitProduct(std::string_view text) : text_(text) {
    for (const std::string_view angstrom : {"Å", "\xe2\x84\xab", "å"}) replace_all(text_, angstrom, "angstrom");
    replace_all(text_, "**", "^");
    replace_all(text_, "³", "^3");
    replace_all(text_, "·", "*");
  }

  std::optional<UnitFacts> read() {
    UnitFacts all{text_, 1, 0, 0};
    int sign = 1;              // of the power of the next word
    bool in_brackets = false;  // behind a stroke
    bool has_word = false;
    while (at_ < text_.size()) {
      const char letter = text_[at_];
      if (letter == ' ' || letter == '*') {
        ++at_;
        if (letter == '*' && !in_brackets) sign = 1;
      } else if (letter == '/') {
        ++at_;
        sign = -1;
      } else if (letter == '(') {
        ++at_;
        in_brackets = true;
      } else if (letter == ')') {
        ++at_;
        in_brackets = false;
        sign = 1;
      } else {
        const std::optional<UnitFacts> word = next_word();
        if (!word) return std::nullopt;
        const int power = sign * next_power();
        if (power == 0) return std::nullopt;
        all.factor *= std::pow(word->factor, power);
        all.energy += power * word->energy;
        all.length += power * word->length;
        if (!in_brackets) sign = 1;
        has_word = true;
      }
    }
    return has_word ? std::optional(all) : std::nullopt;
  }

 private:
  std::optional<UnitFacts> next_word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '0'))
      ++at_;
    return at_ == begin ? std::nullopt : facts_of_word(std::string_view(text_).substr(begin, at_ - begin));
  }

  // Returns the power of a word: 1 where none is written; 0 for one that is no whole number.
  int next_power() {
    const bool has_sign = at_ < text_.size() && text_[at_] == '^';
    if (has_sign) ++at_;
    size_t end = at_;
    if (end < text_.size() && text_[end] == '-') ++end;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    if (end == at_) return has_sign ? 0 : 1;
    const std::optional<int64_t> power = whole_number_of(std::string_view(text_).substr(at_, end - at_));
    at_ = end;
    return power && std::abs(*power) <= 3 ? static_cast<int>(*power) : 0;
  }

  std::string text_;
  size_t at_ = 0;
};

struct Dimensions {
  int energy, length;
};
Dimensions dimensions_of(PhysicalQuantity quantity) {
  switch (quantity) {
    case PhysicalQuantity::energy:
    case PhysicalQuantity::virial:
      return {1, 0};
    case PhysicalQuantity::forces:
      return {1, -1};
    case PhysicalQuantity::stress:
      return {1, -3};
    case PhysicalQuantity::length:
      return {0, 1};
    case PhysicalQuantity::other:
      break;
  }
  return {0, 0};
}

bool are_atomic_units(std::string_view unit) {
  const std::string small = lower_case(unit);
  return small == "a.u." || small == "a.u" || small == "au" || small == "atomic" || small == "atomic units";
}

constexpr std::array<std::string_view, 14> beside_names = {"ref",   "dft",    "qm",        "mp2",  "ccsd",
                                                           "xtb",   "total",  "potential", "free", "target",
                                                           "label", "config", "reference", "true"};

}  // namespace

PhysicalQuantity quantity_of(std::string_view name) {
  std::string word = lower_case(name);
  std::ranges::replace(word, '-', '_');
  for (const std::string_view beside : beside_names) {
    const std::string before = std::string(beside) + "_", behind = "_" + std::string(beside);
    if (word.starts_with(before)) word.erase(0, before.size());
    if (word.ends_with(behind)) word.erase(word.size() - behind.size());
  }
  if (word == "energy" || word == "energies") return PhysicalQuantity::energy;
  if (word == "forces" || word == "force") return PhysicalQuantity::forces;
  if (word == "stress") return PhysicalQuantity::stress;
  return word == "virial" || word == "virials" ? PhysicalQuantity::virial : PhysicalQuantity::other;
}

std::string_view standard_unit(PhysicalQuantity quantity) {
  switch (quantity) {
    case PhysicalQuantity::energy:
    case PhysicalQuantity::virial:
      return "eV";
    case PhysicalQuantity::forces:
      return "eV/angstrom";
    case PhysicalQuantity::stress:
      return "eV/angstrom^3";
    case PhysicalQuantity::length:
      return "angstrom";
    case PhysicalQuantity::other:
      break;
  }
  return "";
}

std::optional<double> standard_units_in(PhysicalQuantity quantity, std::string_view unit) {
  const Dimensions wanted = dimensions_of(quantity);
  if (are_atomic_units(unit)) {
    return std::pow(electronvolts_of_hartree, wanted.energy) * std::pow(angstrom_of_bohr, wanted.length);
  }
  const std::optional<UnitFacts> facts = UnitProduct(unit).read();
  if (!facts || facts->energy != wanted.energy || facts->length != wanted.length) return std::nullopt;
  return facts->factor;
}

double checked_standard_units_in(std::string_view name, PhysicalQuantity quantity, std::string_view unit) {
  if (const std::optional<double> factor = standard_units_in(quantity, unit)) return *factor;
  const std::string_view known = quantity == PhysicalQuantity::forces   ? "eV/angstrom, hartree/bohr, kcal/mol/angstrom"
                                 : quantity == PhysicalQuantity::stress ? "eV/angstrom^3, GPa, kbar, hartree/bohr^3"
                                 : quantity == PhysicalQuantity::length ? "angstrom, bohr, nm"
                                                                        : "eV, hartree, rydberg, kcal/mol, kJ/mol";
  throw UserError::of("{} is in \"{}\", which is no unit of it that is known; give {}, or convert it", name, unit,
                      known);
}

std::string problem_of_derivative(std::string_view unit_of_energy, std::string_view unit, PhysicalQuantity derivative) {
  const auto factor = [](PhysicalQuantity quantity, std::string_view text) {
    return text.empty() ? std::optional(1.0) : standard_units_in(quantity, text);
  };
  const std::optional<double> of_energy = factor(PhysicalQuantity::energy, unit_of_energy),
                              own = factor(derivative, unit);
  if (!of_energy && !own) return "";
  if (of_energy && own && std::abs(*of_energy / *own - 1) < 1e-6) return "";
  const auto or_unknown = [](std::string_view text) {
    return text.empty() ? std::string("no unit, that is eV") : std::string(text);
  };
  const std::string both = fmt::format("{} and {} are no energy and its derivative, where lengths are angstrom; ",
                                       or_unknown(unit_of_energy), or_unknown(unit));
  if (of_energy && own) {
    return both + "prepare them with --units, which converts energy, forces, stress and virial to eV and angstrom";
  }
  return both + fmt::format(
                    "{} is not known: where the values are in it, convert them in the files{}; then, or where "
                    "only the note is wrong, prepare them again with --units and the right unit, such as {}",
                    of_energy ? unit : unit_of_energy,
                    of_energy ? "" : " (an energy per atom times the number of atoms)",
                    standard_unit(of_energy ? derivative : PhysicalQuantity::energy));
}

std::string unit_of_stress(std::string_view property, std::string_view unit) {
  const bool has_volume = unit.empty() || quantity_of(property) != PhysicalQuantity::virial;
  return has_volume ? std::string(unit) : fmt::format("{}/angstrom^3", unit);
}

void convert_to_standard(std::string_view name, PropertyValues& property, std::string_view unit) {
  const double factor = checked_standard_units_in(name, quantity_of(name), unit);
  if (factor == 1) return;
  for (double& value : property.values) value *= factor;
}

std::vector<double> full_tensor(const std::vector<double>& voigt) {
  TERRACE_CHECK(voigt.size() == 6, "{} numbers of a symmetric tensor", voigt.size());
  const double xx = voigt[0], yy = voigt[1], zz = voigt[2], yz = voigt[3], xz = voigt[4], xy = voigt[5];
  return {xx, xy, xz, xy, yy, yz, xz, yz, zz};
}

double stress_in_label(std::string_view property, const Cell& cell) {
  const double volume = volume_of(cell);
  if (volume == 0) return 0;
  return quantity_of(property) == PhysicalQuantity::virial ? -1 / volume : 1;
}

}  // namespace terrace::data
