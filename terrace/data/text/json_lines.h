// The text in one line of JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace terrace::data {

// Sets `text` to the named field of the JSON object in `line`, unescaped (the last one where it is repeated). Returns
// what is wrong with the line, or nothing. Only the object's own fields are looked at, not those of objects within it.
std::optional<std::string> extract_text(std::string_view line, std::string_view field, std::string& text);

}  // namespace terrace::data
