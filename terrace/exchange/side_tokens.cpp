// Reads the files beside a tokenizer.
#include "terrace/exchange/side_tokens.h"

#include <map>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;

Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  try {
    Json json = parse_json(read_text(path));
    if (!json.is_object()) throw UserError::of("{} is not a JSON object", path.string());
    return json;
  } catch (const Json::exception& error) {
    throw UserError::of("{} is not JSON: {}", path.string(), error.what());
  }
}

// A special token is a text, or an object with the text and its flags.
std::string text_of(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() ? token.value("content", std::string()) : "";
}

std::set<std::string> special_texts(const SideFiles& files) {
  std::set<std::string> texts;
  for (const Json* json : {&files.config, &files.special}) {
    for (const auto& [key, value] : json->items()) {
      if (key.ends_with("_token")) texts.insert(text_of(value));
      const bool is_list = key == "additional_special_tokens" || key == "extra_special_tokens";
      if (!is_list || !value.is_structured()) continue;
      for (const Json& token : value) texts.insert(text_of(token));
    }
  }
  return texts;
}

}  // namespace

SideFiles read_side_files(const fs::path& folder) {
  return {.config = read_object(folder / "tokenizer_config.json"),
          .special = read_object(folder / "special_tokens_map.json"),
          .added = read_object(folder / "added_tokens.json")};
}

std::vector<data::AddedToken> side_tokens(const SideFiles& files, const std::string& folder) {
  std::map<int64_t, data::AddedToken> by_id;
  const auto add = [&](data::AddedToken token) {
    const auto [place, is_new] = by_id.emplace(token.id, token);
    if (is_new || place->second.text == token.text) return;
    throw UserError::of("{} has two tokens with id {}: \"{}\" and \"{}\"", folder, token.id, place->second.text,
                        token.text);
  };
  try {
    // These tokens have their flags, so they go before those of a file that has none.
    const Json decoder = files.config.value("added_tokens_decoder", Json::object());
    for (const auto& [id, token] : decoder.items()) {
      add({.id = static_cast<int32_t>(std::stol(id)),
           .text = token.at("content").get<std::string>(),
           .special = token.value("special", false),
           .lstrip = token.value("lstrip", false),
           .rstrip = token.value("rstrip", false),
           .single_word = token.value("single_word", false)});
    }
    const std::set<std::string> special = special_texts(files);
    for (const auto& [text, id] : files.added.items()) {
      add({.id = id.get<int32_t>(), .text = text, .special = special.contains(text)});
    }
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError::of("{}: its added tokens are damaged: {}", folder, error.what());
  }
  std::vector<data::AddedToken> tokens;
  for (const auto& [id, token] : by_id) {
    if (id < 0 || token.text.empty()) throw UserError::of("{} has a token \"{}\" with id {}", folder, token.text, id);
    tokens.push_back(token);
  }
  return tokens;
}

std::string special_token(const SideFiles& files, const char* key) {
  for (const Json* json : {&files.config, &files.special}) {
    if (json->contains(key)) {
      if (std::string text = text_of(json->at(key)); !text.empty()) return text;
    }
  }
  return "";
}

}  // namespace terrace::exchange
