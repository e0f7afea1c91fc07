// Extracts the text from a line of JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace terrace::data {

// Sets `text` to the named field of the JSON object in `line`, unescaped; the last one counts where it is repeated. The
// field "meta.text" is the field "text" of the object "meta", or the object's own field of that name. Other nested
// fields are ignored. Numbers may be NaN, Infinity and -Infinity, as Python writes them. Returns the problem of the
// line, or nothing.
std::optional<std::string> extract_text(std::string_view line, std::string_view field, std::string& text);

}  // namespace terrace::data
