// Writes tokenizer.json.
#include <algorithm>

#include "terrace/base/json.h"
#include "terrace/data/text/tokenizer/byte_pair_model.h"

namespace terrace::data {
namespace {

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

// One expression of GPT-2's is what ByteLevel does by itself.
Json pre_tokenizer(const BytePairModel& model) {
  if (model.patterns == std::vector<std::string>{gpt2_pattern}) return byte_level(model.add_prefix_space, true);
  Json parts = Json::array();
  for (const std::string& pattern : model.patterns) {
    parts.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  parts.push_back(byte_level(model.add_prefix_space, false));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

Json normalizer(const BytePairModel& model) { return model.normal_form_c ? Json{{"type", "NFC"}} : Json(); }

Json added_tokens(const BytePairModel& model) {
  Json tokens = Json::array();
  for (const AddedToken& token : model.added) {
    tokens.push_back({{"id", token.id},
                      {"content", token.text},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
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
  // Past the object's own search for the key, which starts at its first one each time.
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
