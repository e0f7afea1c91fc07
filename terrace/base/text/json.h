// The JSON type of the program, and the reading of JSON that others wrote.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "terrace/base/text/json_fwd.h"

namespace terrace {

// No file that terrace reads nests nearly as far. Without a limit, deeply nested values would exhaust the stack, since
// they are copied, compared and printed by functions that call themselves.
inline constexpr int most_nested_json = 64;

// Whether arrays and objects are nested more than most_nested_json deep in a text, which need not be JSON.
constexpr bool is_nested_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (in_string) {
      if (letter == '\\') ++at;
      in_string = letter != '"';
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > most_nested_json) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

// Parses the program's JSON. Throws the library's exceptions where the text is not JSON or nests too deep.
Json parse_json(std::string_view text);

// Parses JSON into another of the library's types, such as one that looks keys up fast.
template <typename Value>
Value parse_json_as(std::string_view text) {
  if (is_nested_too_deep(text)) {
    throw Json::other_error::create(501, "values are nested more than 64 deep", nullptr);
  }
  return Value::parse(text);
}

// Returns a discarded value where the text is not JSON or nests too deep.
Json parse_json_or_discard(std::string_view text);

}  // namespace terrace

// json.cpp has the functions of the type, which every file that includes this header would compile otherwise.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
