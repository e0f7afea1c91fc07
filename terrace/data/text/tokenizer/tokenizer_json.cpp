// Reads tokenizer.json; every component that is not supported is refused by name.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"

namespace terrace::data {
namespace {

// JSON with sorted keys, unlike terrace::Json, which would search a vocabulary from its start for each of its tokens.
using FileJson = nlohmann::json;

constexpr const char* supported =
    "supported is a byte-level BPE: model BPE, normalizer NFC or none, pre_tokenizer ByteLevel or a Sequence of it and "
    "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer and CharDelimiterSplit, decoder "
    "ByteLevel; "
    "other tokenizers: as a SentencePiece model (tokenizer.model)";

template <typename... Args>
UserError refused(const std::string& name, fmt::format_string<Args...> format, Args&&... args) {
  return UserError::of("{}: {}; {}", name, fmt::format(format, std::forward<Args>(args)...), supported);
}

bool is_set(const FileJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// Returns a key's value, or `otherwise` where it is missing. null is of another type than expected, as in tokenizers.
template <typename Value>
Value value_of(const FileJson& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  return found != object.end() ? found->template get<Value>() : otherwise;
}

// Returns the value of a key of the model that may be null, or `otherwise` where it is null or missing.
template <typename Value>
Value value_or_null(const FileJson& object, const char* key, Value otherwise) {
  return is_set(object, key) ? object.at(key).get<Value>() : otherwise;
}

std::string type_of(const FileJson& component) { return value_of<std::string>(component, "type", "(without a type)"); }

// Returns an expression for the text: each character to which an expression gives a meaning is escaped.
std::string literal(const std::string& text) {
  std::string expression;
  for (char here : text) {
    if (std::string_view("\\^$.[]|()?*+{}-#&~/").find(here) != std::string_view::npos) expression += '\\';
    expression += here;
  }
  return expression;
}

SplitBehavior behavior_of(const FileJson& component, std::string_view otherwise, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> behaviors{
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  const auto word = value_of<std::string>(component, "behavior", std::string(otherwise));
  const auto* const found =
      std::find_if(behaviors.begin(), behaviors.end(), [&](const auto& one) { return one.first == word; });
  if (found == behaviors.end()) {
    throw refused(name, "pre_tokenizer {} has behavior {}", type_of(component), word);
  }
  return found->second;
}

SplitRule split_rule(const FileJson& split, const std::string& name) {
  const FileJson& pattern = split.at("pattern");
  return {is_set(pattern, "Regex") ? pattern.at("Regex").get<std::string>()
                                   : literal(pattern.at("String").get<std::string>()),
          behavior_of(split, "", name), value_of(split, "invert", false)};
}

// Unicode's punctuation and all of ASCII's. The package's table is of Unicode 8: without the characters in the first
// brackets, and with two that are no punctuation any more.
constexpr const char* punctuation =
    R"((?![\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}\x{1B7E}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10EAD})"
    R"(\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F}\x{1145A}\x{1145B}\x{1145D}\x{11660}-\x{1166C})"
    R"(\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2})"
    R"(\x{11C41}-\x{11C45}\x{11C70}\x{11C71}\x{11EF7}\x{11EF8}\x{11FFF}\x{12FF1}\x{12FF2}\x{16E97}-\x{16E9A})"
    R"(\x{16FE2}\x{1E95E}\x{1E95F}])[\p{P}\x{166D}\x{111C9}$+<=>^`|~])";

// Returns the rules of one pre-tokenizer other than ByteLevel.
std::vector<SplitRule> split_rules(const FileJson& component, const std::string& name) {
  const std::string type = type_of(component);
  if (type == "Split") return {split_rule(component, name)};
  if (type == "Digits") {
    return {value_of(component, "individual_digits", false) ? SplitRule("\\p{N}") : SplitRule("\\p{N}+")};
  }
  if (type == "Punctuation") return {{punctuation, behavior_of(component, "Isolated", name)}};
  if (type == "WhitespaceSplit") return {{"\\s", SplitBehavior::removed}};
  if (type == "Whitespace") return {{R"(\w+|[^\w\s]+)", SplitBehavior::removed, true}};
  if (type == "BertPreTokenizer") return {{"\\s", SplitBehavior::removed}, {punctuation}};
  if (type == "CharDelimiterSplit") {
    return {{literal(component.at("delimiter").get<std::string>()), SplitBehavior::removed}};
  }
  throw refused(name, "pre_tokenizer {} is not supported", type);
}

// Calls take() for the components of a Sequence, which may hold others, or for the component itself.
void for_each_component(const FileJson& component, const char* key, const std::function<void(const FileJson&)>& take) {
  if (type_of(component) != "Sequence") return take(component);
  for (const FileJson& part : component.at(key)) for_each_component(part, key, take);
}

void read_pre_tokenizer(const FileJson& component, const std::string& name, BytePairModel& model) {
  int byte_levels = 0;
  for_each_component(component, "pretokenizers", [&](const FileJson& part) {
    if (type_of(part) != "ByteLevel") {
      for (SplitRule& rule : split_rules(part, name)) {
        (byte_levels == 0 ? model.patterns : model.byte_patterns).push_back(std::move(rule));
      }
      return;
    }
    ++byte_levels;
    model.add_prefix_space = value_of(part, "add_prefix_space", true);
    model.byte_level_splits = value_of(part, "use_regex", true);
  });
  if (byte_levels == 1) return;
  if (byte_levels > 1) throw refused(name, "pre_tokenizer Sequence has ByteLevel {} times", byte_levels);
  throw refused(name, "pre_tokenizer {} makes no bytes of text: it has no ByteLevel", type_of(component));
}

void read_normalizer(const FileJson& component, const std::string& name, BytePairModel& model) {
  for_each_component(component, "normalizers", [&](const FileJson& part) {
    if (type_of(part) != "NFC") throw refused(name, "normalizer {} would change texts", type_of(part));
    model.normal_form_c = true;
  });
}

// Refuses decoders other than those that give back the bytes of the tokens; Fuse joins what is joined anyway.
void check_decoder(const FileJson& component, const std::string& name) {
  int byte_levels = 0;
  for_each_component(component, "decoders", [&](const FileJson& part) {
    if (type_of(part) == "ByteLevel") ++byte_levels;
    if (type_of(part) != "ByteLevel" && type_of(part) != "Fuse") {
      throw refused(name, "decoder {} is not supported", type_of(part));
    }
  });
  if (byte_levels != 1) throw refused(name, "decoder {} has ByteLevel {} times", type_of(component), byte_levels);
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
                           .normalized = value_of(token, "normalized", true),
                           .lstrip = value_of(token, "lstrip", false),
                           .rstrip = value_of(token, "rstrip", false),
                           .single_word = value_of(token, "single_word", false)};
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
  if (is_set(file, "normalizer")) read_normalizer(file["normalizer"], name, model);
  read_model(file.at("model"), name, model);
  if (!is_set(file, "pre_tokenizer")) throw refused(name, "it has no pre_tokenizer");
  read_pre_tokenizer(file.at("pre_tokenizer"), name, model);
  if (is_set(file, "decoder")) check_decoder(file["decoder"], name);
  if (is_set(file, "added_tokens")) read_added(file["added_tokens"], name, model);
  return model;
}

// Runs `read` on the parsed text; a value with another type than expected is reported as an error of the file.
template <typename Read>
auto parsed(std::string_view text, const std::string& name, Read read) {
  try {
    return read(parse_json_as<FileJson>(text));
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
    model.byte_level_splits = true;
    return model;
  });
}

}  // namespace terrace::data
