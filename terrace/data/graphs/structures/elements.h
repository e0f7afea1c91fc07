// The chemical elements by symbol and number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace terrace::data {

inline constexpr int32_t most_element = 118;

// Returns the number of a symbol such as "Fe"; D and T, the isotopes of hydrogen, are 1. No value for what is no
// element.
std::optional<uint8_t> atomic_number(std::string_view symbol);

// Returns the symbol of an element from 1 to 118; "X" for 0.
std::string_view element_symbol(int32_t atomic_number);

}  // namespace terrace::data
