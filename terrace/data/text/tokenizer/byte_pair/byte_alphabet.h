// The 256 characters in which GPT-2's vocabulary spells bytes: printable ones stand for themselves, the others for
// U+0100 and on, so that a space is U+0120.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace terrace::data {

// Returns the spelling, in UTF-8, of any bytes.
std::string spelled(std::string_view bytes);

// Decodes the spelling; returns nullopt where a character is not of the alphabet.
std::optional<std::string> unspelled(std::string_view spelling);

}  // namespace terrace::data
