// Reads and replaces the post-processor of a tokenizer.json.
#include "terrace/exchange/post_processor.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::exchange {
namespace {

// This JSON sorts its keys, unlike terrace::Json, which would search a vocabulary from its start for each of its
// tokens.
using FileJson = nlohmann::json;

void add(const FileJson& processor, const std::string& name, AddedAround& around) {
  if (processor.is_null()) return;
  const std::string type = processor.at("type").get<std::string>();
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const FileJson& one : processor.at("processors")) add(one, name, around);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    around.before.push_back(processor.at("cls").at(1).get<int64_t>());
    around.behind.push_back(processor.at("sep").at(1).get<int64_t>());
  } else if (type == "TemplateProcessing") {
    bool is_behind = false;
    for (const FileJson& piece : processor.at("single")) {
      if (!piece.contains("SpecialToken")) {
        is_behind = true;
        continue;
      }
      const auto token = piece.at("SpecialToken").at("id").get<std::string>();
      std::vector<int64_t>& ids = is_behind ? around.behind : around.before;
      for (const FileJson& id : processor.at("special_tokens").at(token).at("ids")) ids.push_back(id.get<int64_t>());
    }
  } else {
    throw UserError::of(
        "{}: post_processor {} is not known; known are ByteLevel, TemplateProcessing, BertProcessing, "
        "RobertaProcessing and a Sequence of them",
        name, type);
  }
}

// The place of the value of a key of the outermost object: [begin, end). The text is JSON.
std::pair<size_t, size_t> value_of(std::string_view text, std::string_view key) {
  int depth = 0;
  bool is_key = false;  // whether a string at depth 1 is one
  size_t begin = std::string_view::npos;
  for (size_t at = 0; at < text.size(); ++at) {
    const char here = text[at];
    if (here == '"') {
      const size_t from = at + 1;
      for (++at; text[at] != '"'; ++at) at += static_cast<size_t>(text[at] == '\\');
      if (depth == 1 && is_key && text.substr(from, at - from) == key) begin = text.find(':', at) + 1;
      is_key = false;
    } else if (here == '{' || here == '[') {
      is_key = ++depth == 1;
    } else if (here == '}' || here == ']' || here == ',') {
      const bool ends = depth == 1 && begin != std::string_view::npos && at > begin;
      if (ends) return {begin, at};
      if (here != ',') --depth;
      is_key = here == ',' && depth == 1;
    }
  }
  return {std::string_view::npos, std::string_view::npos};
}

}  // namespace

AddedAround added_around(std::string_view file, const std::string& name) {
  AddedAround around;
  try {
    const auto json = parse_json_as<FileJson>(file);
    if (json.contains("post_processor")) add(json.at("post_processor"), name, around);
  } catch (const FileJson::exception& error) {
    throw UserError::of("{}: its post_processor is damaged: {}", name, error.what());
  }
  return around;
}

std::string token_text(std::string_view file, int64_t id) {
  const auto json = parse_json_as<FileJson>(file);
  for (const FileJson& token : json.value("added_tokens", FileJson::array())) {
    if (token.at("id") == id) return token.at("content").get<std::string>();
  }
  for (const auto& [text, own] : json.at("model").at("vocab").items()) {
    if (own == id) return text;
  }
  return "";
}

Json begin_token_processor(const std::string& text, int64_t id) {
  const auto sequence = [](const char* which, int type) -> Json {
    return {{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  const Json token = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({token, sequence("A", 0)})},
          {"pair", Json::array({token, sequence("A", 0), sequence("B", 1)})},
          {"special_tokens", {{text, {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}}}}}};
}

std::string with_post_processor(std::string_view file, const Json& processor) {
  const auto [begin, end] = value_of(file, "post_processor");
  std::string changed(file);
  if (begin != std::string_view::npos) return changed.replace(begin, end - begin, " " + processor.dump() + "\n");
  return changed.insert(file.find('{') + 1, "\"post_processor\": " + processor.dump() + ",");
}

}  // namespace terrace::exchange
