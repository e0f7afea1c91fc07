// Reads generation_config.json.
#include "terrace/data/text/generation_config.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"

namespace terrace::data {
namespace {

bool is_id(const Json& value) { return value.is_number_unsigned(); }

}  // namespace

Json read_generation_config(const std::filesystem::path& path) {
  Json json;
  try {
    json = parse_json(read_text(path));
  } catch (const Json::exception& error) {
    throw UserError::of("{} is not JSON: {}", path.string(), error.what());
  }
  if (!json.is_object()) throw UserError::of("{} is not a JSON object", path.string());
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!json.contains(key) || json[key].is_null() || is_id(json[key])) continue;
    const Json& value = json[key];
    if (value.is_array() && std::all_of(value.begin(), value.end(), is_id)) continue;
    throw UserError::of("{}: {} = {} is no id of a token and no list of ids", path.string(), key, value.dump());
  }
  return json;
}

std::vector<int64_t> token_ids(const Json& generation, const char* key) {
  if (!generation.contains(key) || generation.at(key).is_null()) return {};
  const Json& value = generation.at(key);
  return value.is_array() ? value.get<std::vector<int64_t>>() : std::vector{value.get<int64_t>()};
}

}  // namespace terrace::data
