// Unicode's normal form C, which some tokenizers bring text to before they split it.
#pragma once

#include <string>
#include <string_view>

namespace terrace::data {

// Returns the text in normal form C (UAX #15): characters composed with the marks behind them, "e" and U+0301 to "é".
// The result is `text` itself where nothing changes, else `buffer`. Bytes outside of UTF-8 are kept, and nothing is
// composed across them. Text below U+0300, such as ASCII, only costs the search for other characters.
std::string_view to_normal_form_c(std::string_view text, std::string& buffer);

}  // namespace terrace::data
