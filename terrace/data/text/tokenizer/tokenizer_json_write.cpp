// Writes tokenizer.json.
#include <algorithm>

#include "terrace/base/text/json.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"

namespace terrace::data {
namespace {

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

const char* name_of(SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::removed:
      return "Removed";
    case SplitBehavior::isolated:
      return "Isolated";
    case SplitBehavior::merged_with_previous:
      return "MergedWithPrevious";
    case SplitBehavior::merged_with_next:
      return "MergedWithNext";
    case SplitBehavior::contiguous:
      return "Contiguous";
  }
  return "";
}

Json split(const SplitRule& rule) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", rule.expression}}},
          {"behavior", name_of(rule.behavior)},
          {"invert", rule.invert}};
}

Json pre_tokenizer(const BytePairModel& model) {
  Json bytes = byte_level(model.add_prefix_space, model.byte_level_splits);
  if (model.patterns.empty() && model.byte_patterns.empty()) return bytes;
  Json parts = Json::array();
  for (const SplitRule& rule : model.patterns) parts.push_back(split(rule));
  parts.push_back(bytes);
  for (const SplitRule& rule : model.byte_patterns) parts.push_back(split(rule));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

Json normalizer(const BytePairModel& model) { return model.normal_form_c ? Json{{"type", "NFC"}} : Json(); }

Json added_tokens(const BytePairModel& model) {
  Json tokens = Json::array();
  for (const AddedToken& token : model.added) {
    tokens.push_back({{"id", token.id},
                      {"content", token.text},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", token.normalized},
                      {"special", token.special}});
  }
  return tokens;
}

Json vocabulary(const BytePairModel& model) {
  std::vector<std::pair<int32_t, std::string>> by_id;
  for (const auto& [spelling, id] : model.vocabulary) by_id.emplace_back(id, spelling);
  std::sort(by_id.begin(), by_id.end());
  Json object = Json::object();
  // The entries are added past the object's own search for a key, which starts at the first one each time.
  auto& entries = object.get_ref<Json::object_t&>();
  for (const auto& [id, spelling] : by_id) entries.emplace_back(spelling, id);
  return object;
}

Json merges(const BytePairModel& model) {
  Json list = Json::array();
  for (const auto& [left, right] : model.merges) list.push_back(Json::array({left, right}));
  return list;
}

}  // namespace

std::string dump_tokenizer_json(const BytePairModel& model) {
  Json file = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added_tokens(model)},
               {"normalizer", normalizer(model)},
               {"pre_tokenizer", pre_tokenizer(model)},
               {"post_processor", nullptr},
               {"decoder", byte_level(model.add_prefix_space, true)}};
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", model.ignore_merges}};
  file["model"]["vocab"] = vocabulary(model);
  file["model"]["merges"] = merges(model);
  return file.dump(1) + "\n";
}

}  // namespace terrace::data
