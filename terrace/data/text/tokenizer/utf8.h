// Finds where characters of UTF-8 text begin and end, and which bytes are none.
#pragma once

#include <cstddef>
#include <string_view>

namespace terrace::data {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";  // U+FFFD

// Returns the bytes of the character that `text` starts with; 0 where its first bytes are not valid UTF-8 (RFC 3629: no
// surrogates, no overlong forms, nothing past U+10FFFF).
size_t character_length(std::string_view text);

// Returns the number of bytes at the front of `text` that are whole characters.
size_t valid_length(std::string_view text);

// Returns the largest size at which `text` can be cut so that no character is split which bytes behind `text` may
// complete.
size_t whole_characters(std::string_view text);

// Returns where the last character of `text`, which is not empty, begins.
size_t last_character(std::string_view text);

// Return whether a character of Unicode's White_Space is at the front or the end of `text`, which is not empty.
bool starts_with_space(std::string_view text);
bool ends_with_space(std::string_view text);

// Returns where to cut `text`, which is not empty, when no place is known at which no token is split: at the last line
// or else the last space of its second half, since splitting a token there changes less than splitting one in a word,
// or else between characters.
size_t cut_at_blank(std::string_view text);

}  // namespace terrace::data
