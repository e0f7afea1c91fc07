// The second line of a frame of extended XYZ: keys and values as ASE's key_val_str_to_dict() divides and converts them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::data {

// The keys and values of the line in their order. Values may stand in "..", '..', {..} or [..], with blanks around the
// sign =; a backslash takes the next character as it is; a key without a value has none.
struct KeyAndValue {
  std::string key = {};
  std::optional<std::string> value = {};
  bool operator==(const KeyAndValue&) const = default;
};
// Throws UserError where ASE's rules give a reading that nobody can mean: a sign = in a quote that is not closed or
// without a key before it, and a key that an empty value before it would swallow.
std::vector<KeyAndValue> keys_and_values(std::string_view line);

// The value that ASE makes of a text: numbers, logicals or a text, which has none of either. Numbers are between blanks
// or commas as Python writes them (1_000, inf), or after _JSON in nested lists, row after row.
struct ValueOfKey {
  std::vector<double> numbers = {};
  bool are_logicals = false;
  // A sentence about a text that was meant as numbers, which would be lost in silence: exponents with D, where a point
  // or a sign tells them from a name such as 1D2, and numbers in brackets within brackets or quotes.
  std::string note = {};
};
// Reads a value. Throws UserError for text after _JSON that is no JSON, or whose lists differ in length.
ValueOfKey value_of_key(const std::string& key, const std::string& value);

// Returns a number as Python's float() reads it; too large a number is infinite, too small a number 0.
std::optional<double> python_number(std::string_view word);

// Returns the line with a blank for each white space that is none of ASCII, where Python divides words too.
std::string with_plain_blanks(std::string_view line);

}  // namespace terrace::data
