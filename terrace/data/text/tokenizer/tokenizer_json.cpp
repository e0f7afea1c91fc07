// Reads tokenizer.json; every component that is not supported is refused by name.
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/json.h"
#include "terrace/data/text/tokenizer/byte_pair_model.h"

namespace terrace::data {
namespace {

// With sorted keys, unlike terrace::Json, which would search a vocabulary from its start for each of its tokens.
using FileJson = nlohmann::json;

constexpr const char* supported =
    "supported is a byte-level BPE: model BPE, normalizer NFC or none, pre_tokenizer ByteLevel, Split (Isolated), "
    "Digits or a Sequence of them with ByteLevel last, decoder ByteLevel; other tokenizers: as a SentencePiece model "
    "(tokenizer.model)";

template <typename... Args>
UserError refused(const std::string& name, fmt::format_string<Args...> format, Args&&... args) {
  return UserError::of("{}: {}; {}", name, fmt::format(format, std::forward<Args>(args)...), supported);
}

bool is_set(const FileJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// A key's value, or `otherwise` where it is missing. null is of another type than expected, as it is in tokenizers.
template <typename Value>
Value value_of(const FileJson& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  return found != object.end() ? found->template get<Value>() : otherwise;
}

// For a key of the model that may be null, which is what it is where it is missing.
template <typename Value>
Value value_or_null(const FileJson& object, const char* key, Value otherwise) {
  return is_set(object, key) ? object.at(key).get<Value>() : otherwise;
}

std::string type_of(const FileJson& component) { return value_of<std::string>(component, "type", "(without a type)"); }

// Each character that an expression gives a meaning to, escaped.
std::string literal(const std::string& text) {
  std::string expression;
  for (char here : text) {
    if (std::string_view("\\^$.[]|()?*+{}-#&~/").find(here) != std::string_view::npos) expression += '\\';
    expression += here;
  }
  return expression;
}

std::string split_pattern(const FileJson& split, const std::string& name) {
  const std::string behavior = value_of<std::string>(split, "behavior", "");
  if (behavior != "Isolated") throw refused(name, "pre_tokenizer Split has behavior {}", behavior);
  if (value_of(split, "invert", false)) throw refused(name, "pre_tokenizer Split is inverted");
  const FileJson& pattern = split.at("pattern");
  if (is_set(pattern, "Regex")) return pattern.at("Regex").get<std::string>();
  return literal(pattern.at("String").get<std::string>());
}

void read_byte_level(const FileJson& component, bool alone, const std::string& name, BytePairModel& model) {
  model.add_prefix_space = value_of(component, "add_prefix_space", true);
  if (model.add_prefix_space && !alone) {
    throw refused(name, "pre_tokenizer ByteLevel puts a space before each piece (add_prefix_space) of a Sequence");
  }
  if (value_of(component, "use_regex", true)) model.patterns.emplace_back(gpt2_pattern);
}

void read_pre_tokenizer(const FileJson& component, const std::string& name, BytePairModel& model) {
  const std::string type = type_of(component);
  if (type == "ByteLevel") return read_byte_level(component, true, name, model);
  if (type != "Sequence") throw refused(name, "pre_tokenizer {} makes no bytes of text", type);
  const FileJson& parts = component.at("pretokenizers");
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = type_of(parts[i]);
    const bool last = i + 1 == parts.size();
    if (last != (part == "ByteLevel")) throw refused(name, "pre_tokenizer Sequence has {} as part {}", part, i + 1);
    if (last) {
      read_byte_level(parts[i], parts.size() == 1, name, model);
    } else if (part == "Split") {
      model.patterns.push_back(split_pattern(parts[i], name));
    } else if (part == "Digits") {
      model.patterns.emplace_back(value_of(parts[i], "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    } else {
      throw refused(name, "pre_tokenizer {} is not supported", part);
    }
  }
}

std::pair<std::string, std::string> merge_of(const FileJson& merge, const std::string& name) {
  if (merge.is_array() && merge.size() == 2) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.get<std::string>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    throw UserError::of("{}: the merge \"{}\" is not two spellings with a space between", name, text);
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_model(const FileJson& json, const std::string& name, BytePairModel& model) {
  // Older files name no type.
  const std::string type = value_of<std::string>(json, "type", "BPE");
  if (type != "BPE") throw refused(name, "model {} is not supported", type);
  if (value_or_null(json, "dropout", 0.0) != 0.0)
    throw refused(name, "model BPE has dropout {}", json.at("dropout").dump());
  if (value_or_null(json, "byte_fallback", false)) throw refused(name, "model BPE has byte_fallback");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string text = value_or_null<std::string>(json, affix, "");
    if (!text.empty()) throw refused(name, "model BPE has {} \"{}\"", affix, text);
  }
  model.ignore_merges = value_or_null(json, "ignore_merges", false);
  for (const auto& [spelling, id] : json.at("vocab").items()) model.vocabulary[spelling] = id.get<int32_t>();
  for (const FileJson& merge : json.at("merges")) model.merges.push_back(merge_of(merge, name));
}

void read_added(const FileJson& tokens, const std::string& name, BytePairModel& model) {
  for (const FileJson& token : tokens) {
    const AddedToken added{.id = token.at("id").get<int32_t>(),
                           .text = token.at("content").get<std::string>(),
                           .special = value_of(token, "special", false),
                           .normalized = value_of(token, "normalized", true)};
    for (const char* rule : {"single_word", "lstrip", "rstrip"}) {
      if (value_of(token, rule, false)) throw refused(name, "added token \"{}\" has {} = true", added.text, rule);
    }
    if (added.text.empty()) throw UserError::of("{}: added token {} has no text", name, added.id);
    model.added.push_back(added);
  }
}

BytePairModel read_file(const FileJson& file, const std::string& name) {
  BytePairModel model;
  if (!is_set(file, "model")) throw refused(name, "it has no model");
  for (const char* batching : {"truncation", "padding"}) {
    if (is_set(file, batching)) throw refused(name, "it sets {}, which would change texts: make it null", batching);
  }
  if (is_set(file, "normalizer")) {
    const std::string type = type_of(file["normalizer"]);
    if (type != "NFC") throw refused(name, "normalizer {} would change texts", type);
    model.normal_form_c = true;
  }
  read_model(file.at("model"), name, model);
  if (!is_set(file, "pre_tokenizer")) throw refused(name, "it has no pre_tokenizer");
  read_pre_tokenizer(file.at("pre_tokenizer"), name, model);
  if (is_set(file, "decoder") && type_of(file["decoder"]) != "ByteLevel") {
    throw refused(name, "decoder {} is not supported", type_of(file["decoder"]));
  }
  if (is_set(file, "added_tokens")) read_added(file["added_tokens"], name, model);
  return model;
}

// Runs `read` on the parsed text; a value with another type than expected is reported as an error of the file.
template <typename Read>
auto parsed(std::string_view text, const std::string& name, Read read) {
  try {
    return read(parse_json<FileJson>(text));
  } catch (const FileJson::exception& error) {
    throw UserError::of("{} is no valid tokenizer file: {}", name, error.what());
  }
}

}  // namespace

const char* const gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

BytePairModel parse_tokenizer_json(std::string_view text, const std::string& name) {
  return parsed(text, name, [&](const FileJson& file) { return read_file(file, name); });
}

BytePairModel parse_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                          const std::string& name) {
  return parsed(vocabulary, name, [&](const FileJson& file) {
    BytePairModel model;
    for (const auto& [spelling, id] : file.items()) model.vocabulary[spelling] = id.get<int32_t>();
    for (size_t at = 0; at < merges.size();) {
      const size_t end = std::min(merges.find('\n', at), merges.size());
      std::string_view line = merges.substr(at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !line.starts_with("#version")) model.merges.push_back(merge_of(std::string(line), name));
      at = end + 1;
    }
    const auto end_of_text = model.vocabulary.find("<|endoftext|>");
    if (end_of_text != model.vocabulary.end()) model.added.push_back({end_of_text->second, end_of_text->first});
    model.patterns.emplace_back(gpt2_pattern);
    return model;
  });
}

}  // namespace terrace::data
