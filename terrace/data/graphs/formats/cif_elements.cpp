// Compares the beginnings of labels with the formula.
#include "terrace/data/graphs/formats/cif_elements.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/text_numbers.h"
#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

bool is_letter(char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0; }
bool is_small(char letter) { return std::islower(static_cast<unsigned char>(letter)) != 0; }

// Returns the first letters of a text, as many as asked for, written as a symbol.
std::string symbol_of_letters(std::string_view text, size_t letters) {
  std::string symbol(text.substr(0, letters));
  for (size_t i = 0; i < symbol.size(); ++i) {
    const auto letter = static_cast<unsigned char>(symbol[i]);
    symbol[i] = static_cast<char>(i == 0 ? std::toupper(letter) : std::tolower(letter));
  }
  return symbol;
}

size_t leading_letters(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_letter) - text.begin());
}

[[noreturn]] void refuse_label(std::string_view label, const std::string& why) {
  throw UserError::of("has an atom \"{}\", {}; give the elements in _atom_site_type_symbol", label, why);
}

}  // namespace

std::optional<CifFormula> formula_of_text(std::string_view text) {
  CifFormula formula;
  std::vector<std::string_view> words;
  split_words(text, words);
  for (const std::string_view word : words) {
    const size_t letters = leading_letters(word);
    const std::optional<uint8_t> element = atomic_number(word.substr(0, letters));
    const std::optional<double> count = letters == word.size() ? std::optional(1.0) : number_of(word.substr(letters));
    if (!element || !count || !(*count > 0)) return std::nullopt;
    formula[*element] += *count;
  }
  return formula.empty() ? std::nullopt : std::optional(formula);
}

uint8_t element_of_type(std::string_view type) {
  const size_t letters = leading_letters(type);
  if (letters == 1 || letters == 2) {
    if (const auto element = atomic_number(symbol_of_letters(type, letters))) return *element;
  }
  // "OH", a hydroxyl, is an oxygen as in ASE; "Wa" is no tungsten.
  if (letters >= 2 && !is_small(type[1])) {
    if (const auto element = atomic_number(symbol_of_letters(type, 1))) return *element;
  }
  throw UserError::of("has an atom \"{}\", which names no element", type);
}

uint8_t element_of_label(std::string_view label, const std::optional<CifFormula>& formula) {
  const size_t letters = leading_letters(label);
  if (letters == 0) refuse_label(label, "which names no element");
  const auto element = [&](size_t count) -> std::optional<uint8_t> {
    const std::string symbol = symbol_of_letters(label, count);
    // T is a tetrahedral site more often than tritium.
    if (letters < count || symbol == "T") return std::nullopt;
    return atomic_number(symbol);
  };
  const auto is_in_formula = [&](const std::optional<uint8_t>& one) {
    return one && formula && formula->contains(*one);
  };
  const std::optional<uint8_t> one = element(1), two = element(2);
  const bool is_mixed = letters >= 2 && is_small(label[1]);
  if (!formula) {
    if (two) return *two;
    if (one && !is_mixed) return *one;
    refuse_label(label, "which names no element");
  }
  if (is_in_formula(two) && (is_mixed || !is_in_formula(one))) return *two;
  if (is_in_formula(one) && !is_in_formula(two)) {
    if (is_mixed && two) {
      refuse_label(label, "which may be " + symbol_of_letters(label, 1) + " or " + symbol_of_letters(label, 2));
    }
    return *one;
  }
  if (is_in_formula(one))
    refuse_label(label, "which may be " + symbol_of_letters(label, 1) + " or " + symbol_of_letters(label, 2));
  refuse_label(label, one || two ? "whose element " + symbol_of_letters(label, two ? 2 : 1) + " is not in the formula"
                                 : "which names no element");
}

}  // namespace terrace::data
