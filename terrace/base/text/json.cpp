// Compiles the functions of the JSON type, and of its parser, once for the whole program.
#include "terrace/base/text/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace terrace {

Json parse_json(std::string_view text) { return parse_json_as<Json>(text); }

Json parse_json_or_discard(std::string_view text) {
  if (is_nested_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace terrace
