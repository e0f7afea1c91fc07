// Tests that AutoTokenizer of transformers 4 and 5 gives our ids for every kind of exported tokenizer, with the begin
// token that the model was trained with and no other.
#include <gmock/gmock.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"
#include "terrace/exchange/hf_tokenizer.h"
#include "terrace/exchange/post_processor.h"
#include "tests/exchange/hf_models.h"
#include "tests/exchange/tokenizer_models.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {
namespace {

using ::testing::HasSubstr;

// Packs ids as the Python case does: the number of texts, then each text's number of ids and its ids.
std::vector<int64_t> packed(const data::Tokenizer& tokenizer, const std::vector<std::string>& all, int64_t begin) {
  std::vector<int64_t> list{static_cast<int64_t>(all.size())};
  for (const std::string& text : all) {
    std::vector<int64_t> ids;
    if (begin >= 0) ids.push_back(begin);
    for (const int32_t id : tokenizer.encode(text, data::SpecialTokens::keep)) ids.push_back(id);
    list.push_back(static_cast<int64_t>(ids.size()));
    list.insert(list.end(), ids.begin(), ids.end());
  }
  return list;
}

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// The kinds of Python's packages of transformers that are installed.
std::vector<std::string> packages() {
  std::vector<std::string> found{""};
  if (fs::exists(tests::transformers5())) found.push_back(tests::transformers5());
  return found;
}

// All tests that ask Python are of this suite, which CTest runs as one process: one Python of each version answers
// them.
class ExportedTokenizers : public ::testing::Test {
 protected:
  std::string trained(const Json& training) {
    const fs::path path = folder_ / ("trained" + std::to_string(number_++) + ".model");
    testing::shared_pytorch().run(script, "train_sentencepiece", {{"path", path.string()}, {"training", training}},
                                  at::kFloat, {});
    return read_text(path);
  }

  // Expects that AutoTokenizer of each installed version gives our ids for an export of the tokenizer.
  void expect_our_ids(const std::string& kind, const std::string& bytes, int64_t begin, const char* model_type,
                      const std::vector<std::string>& all = mixed_texts) {
    const auto tokenizer = data::Tokenizer::from_bytes(bytes, kind);
    checkpoint::HfContents contents;
    add_hf_tokenizer(bytes, *tokenizer, 100, contents, begin);
    contents.texts.emplace_back("config.json", Json{{"model_type", model_type}}.dump());
    contents.tensors = {{"a", at::empty({1})}};
    const fs::path folder = folder_ / ("export" + std::to_string(number_++));
    checkpoint::write_hf_folder(folder, contents);
    for (const std::string& version : packages()) {
      for (const bool fast : {false, true}) {
        const Json options = {{"folder", folder.string()}, {"texts", all}, {"fast", fast}};
        const auto result = testing::shared_pytorch(version).run(script, "encode", options, at::kFloat, {}).theirs;
        EXPECT_EQ(numbers(result.at("ids")), packed(*tokenizer, all, begin))
            << kind << ", transformers " << result.at("version") << ", fast " << fast << ", begin " << begin;
        EXPECT_EQ(result.at("version").item<int64_t>(), version.empty() ? 4 : 5);
        EXPECT_EQ(result.at("end").item<int64_t>(), tokenizer->end_token()) << kind;
        if (gives_texts_back_) {
          EXPECT_TRUE(result.at("same").all().item<bool>()) << kind << ", fast " << fast << result.at("same");
        }
      }
    }
    const FolderTokenizer back = read_folder_tokenizer(folder);
    EXPECT_EQ(data::Tokenizer::from_bytes(back.bytes, kind)->encode(mixed_texts[1]), tokenizer->encode(mixed_texts[1]));
    EXPECT_EQ(back.begin_token.empty(), begin < 0) << kind << back.begin_token;
    if (begin >= 0) {
      EXPECT_EQ(tokenizer->token_named("", back.begin_token), begin);
    }
  }

  ScratchFolder folder_;
  int number_ = 0;
  bool gives_texts_back_ = false;  // whether ids decode to the texts, without a prefix and the like
};

const Json bpe_training{{"model_type", "bpe"},
                        {"vocab_size", 420},
                        {"byte_fallback", true},
                        {"normalization_rule_name", "identity"},
                        {"remove_extra_whitespaces", false},
                        {"allow_whitespace_only_pieces", true}};

TEST_F(ExportedTokenizers, SentencePieceModelsOfEachKind) {
  const std::string with_prefix = trained(bpe_training);
  for (const int64_t begin : {-1, 1}) expect_our_ids("bpe with prefix", with_prefix, begin, "llama");
  expect_our_ids("bpe with prefix", with_prefix, -1, "mistral");
  Json without = bpe_training;
  without["add_dummy_prefix"] = false;
  expect_our_ids("bpe without prefix", trained(without), -1, "llama");
  // The package merges neighbouring unknown characters as SentencePiece does; these models have no bytes.
  expect_our_ids("unigram", trained({{"model_type", "unigram"}, {"vocab_size", 90}, {"hard_vocab_limit", false}}), -1,
                 "llama");
  Json unigram = bpe_training;
  unigram["model_type"] = "unigram";
  expect_our_ids("unigram with bytes", trained(unigram), 1, "llama");
}

TEST_F(ExportedTokenizers, SentencePieceModelsWithAddedTokens) {
  std::vector<std::string> all = mixed_texts;
  all.insert(all.end(), {"<|im_start|>user\nhi<|im_end|> there", "x<|im_end|>", " <|im_start|>"});
  const std::string model = trained(bpe_training);
  const std::string extended = data::with_added_tokens(
      model,
      {{.id = 420, .text = "<|im_end|>", .special = true}, {.id = 422, .text = "<|im_start|>", .special = false}}, true,
      "test");
  const auto tokenizer = data::Tokenizer::from_bytes(extended, "test");
  EXPECT_EQ(tokenizer->vocabulary(), 423);
  EXPECT_EQ(tokenizer->encode("<|im_start|>"), std::vector<int32_t>{422});
  EXPECT_EQ(tokenizer->encode("<|im_end|>", data::SpecialTokens::keep), std::vector<int32_t>{420});
  EXPECT_EQ(tokenizer->encode(mixed_texts[1]), data::Tokenizer::from_bytes(model, "test")->encode(mixed_texts[1]));
  for (const int64_t begin : {-1, 1}) expect_our_ids("added tokens", extended, begin, "llama", all);
}

// Llama 3's file puts <|begin_of_text|> before each text, which a model that was trained without has never seen.
TEST_F(ExportedTokenizers, ByteLevelPairsHaveTheBeginTokenOfTheModelOnly) {
  const std::string plain = data::dump_tokenizer_json(byte_pairs({"<|begin_of_text|>", "<|end_of_text|>"}));
  const std::string with_begin = with_post_processor(plain, begin_token_processor("<|begin_of_text|>", 259));
  EXPECT_EQ(added_around(with_begin, "test"), (AddedAround{.before = {259}}));
  for (const std::string& bytes : {plain, with_begin}) {
    for (const int64_t begin : {-1, 259}) expect_our_ids("byte pairs", bytes, begin, "llama");
  }
  checkpoint::HfContents contents;
  add_hf_tokenizer(with_begin, *data::Tokenizer::from_bytes(with_begin, "test"), 100, contents, 259);
  EXPECT_EQ(contents.texts.front().second, with_begin);  // unchanged where it is right
}

TEST_F(ExportedTokenizers, DecodeToTheTextsWhereTerraceTrainsThem) {
  gives_texts_back_ = true;
  expect_our_ids("trained here", sentencepiece_model(folder_), -1, "llama");
  expect_our_ids("byte pairs", data::dump_tokenizer_json(byte_pairs({"<|endoftext|>"})), -1, "llama");
}

TEST_F(ExportedTokenizers, RealModels) {
  const fs::path cases = tests::source_dir() / "../shared/cases/text";
  if (!fs::exists(cases)) GTEST_SKIP() << "there is no " << cases;
  const std::string llama = read_text(cases / "llama2_tokenizer.model");
  const auto tokenizer = data::Tokenizer::from_bytes(llama, "llama2");
  EXPECT_EQ(tokenizer->encode("Hello world"), (std::vector<int32_t>{15043, 3186}));
  expect_our_ids("llama2", llama, -1, "llama");
  expect_our_ids("llama2", llama, 1, "llama");
  expect_our_ids("mistral", read_text(cases / "mistral_v1_tokenizer.model"), -1, "mistral");
}

// A folder with a SentencePiece model and other files.
fs::path folder_with(const fs::path& folder, const std::string& model, const std::map<std::string, Json>& files) {
  fs::create_directories(folder);
  write_text_atomically(folder / "tokenizer.model", model);
  write_text_atomically(folder / "config.json", R"({"model_type": "llama"})");
  for (const auto& [name, json] : files) write_text_atomically(folder / name, json.dump());
  return folder;
}

// LlamaTokenizer of transformers 4 reads tokenizer.model and added_tokens.json.
TEST_F(ExportedTokenizers, AddedTokensOfAFolderHaveTheIdsOfTransformers) {
  const std::string model = trained(bpe_training);
  const fs::path folder = folder_with(
      folder_ / "added", model,
      {{"added_tokens.json", {{"<|im_end|>", 420}, {"<|im_start|>", 421}, {"<s>", 1}}},
       {"tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", true}, {"add_bos_token", true}}}});
  const FolderTokenizer found = read_folder_tokenizer(folder);
  EXPECT_EQ(found.begin_token, "<s>");
  const auto tokenizer = data::Tokenizer::from_bytes(found.bytes, "test");
  const std::vector<std::string> all{"<|im_start|>user\nhello<|im_end|>", "a<|im_end|> b", "the number 1"};
  const Json options = {{"folder", folder.string()}, {"texts", all}, {"fast", false}};
  const auto theirs = testing::shared_pytorch().run(script, "encode", options, at::kFloat, {}).theirs;
  EXPECT_EQ(numbers(theirs.at("ids")), packed(*tokenizer, all, 1));
  EXPECT_EQ(tokenizer->encode("<|im_start|>"), std::vector<int32_t>{421});
  // The file is the folder's own where no other tokens are added.
  EXPECT_EQ(read_folder_tokenizer(folder_with(folder_ / "own", model, {{"added_tokens.json", {{"</s>", 2}}}})).bytes,
            model);
}

// transformers 5 has a list of model types whose tokenizer_config.json it does not believe.
TEST(HfTokenizer, AClassThatTransformersForcesIsSaid) {
  data::BytePairModel model = byte_pairs({"<|end_of_text|>"});
  EXPECT_THAT(forced_class("qwen2", data::dump_tokenizer_json(model)), HasSubstr("opens every tokenizer of a qwen2"));
  EXPECT_EQ(forced_class("qwen3", data::dump_tokenizer_json(model)), "");
  model.patterns = {
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  EXPECT_EQ(forced_class("qwen2", data::dump_tokenizer_json(model)), "");
}

TEST(PostProcessors, AllKindsAreUnderstoodAndReplaced) {
  const auto file = [](const std::string& processor) {
    return R"({"version": "1.0", "note": {"post_processor": "}"}, "post_processor": )" + processor +
           R"(, "model": {}})";
  };
  EXPECT_EQ(added_around("{}", "t"), AddedAround{});
  EXPECT_EQ(added_around(file("null"), "t"), AddedAround{});
  EXPECT_EQ(added_around(file(R"({"type": "ByteLevel", "trim_offsets": true})"), "t"), AddedAround{});
  EXPECT_EQ(added_around(file(R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})"), "t"),
            (AddedAround{.before = {0}, .behind = {2}}));
  const std::string sequence = file(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" +
                                    begin_token_processor("<s>", 7).dump() + "]}");
  EXPECT_EQ(added_around(sequence, "t"), (AddedAround{.before = {7}}));
  EXPECT_THROW(added_around(file(R"({"type": "Other"})"), "t"), UserError);
  EXPECT_EQ(with_post_processor(sequence, nullptr), file("null\n"));
  EXPECT_EQ(added_around(with_post_processor("{\"model\": {}}", begin_token_processor("<s>", 7)), "t"),
            (AddedAround{.before = {7}}));
}

TEST(SideTokens, ContradictionsAreRefused) {
  const ScratchFolder folder;
  const std::string model = sentencepiece_model(folder);
  int number = 0;
  const auto refused = [&](const std::map<std::string, Json>& files) {
    const fs::path place = folder_with(folder / std::to_string(number++), model, files);
    return refusal([&] { read_folder_tokenizer(place); });
  };
  EXPECT_THAT(refused({{"added_tokens.json", {{"<new>", 5}}}}), HasSubstr("added token \"<new>\" has id 5"));
  EXPECT_THAT(refused({{"added_tokens.json", {{"</s>", 300}}}}), HasSubstr("has it as piece 1"));
  EXPECT_THAT(refused({{"added_tokens.json", {{"<a>", 300}}},
                       {"tokenizer_config.json", {{"added_tokens_decoder", {{"300", {{"content", "<b>"}}}}}}}}),
              HasSubstr("two tokens with id 300"));
  EXPECT_THAT(refused({{"added_tokens.json", Json::array()}}), HasSubstr("is not a JSON object"));
}

TEST(SideTokens, ATokenizerJsonThatLacksThemIsRefused) {
  const ScratchFolder folder;
  write_text_atomically(folder / "tokenizer.json",
                        data::dump_tokenizer_json(byte_pairs({"<|begin_of_text|>", "<|end_of_text|>"})));
  write_text_atomically(folder / "added_tokens.json", R"({"<|end_of_text|>": 260})");
  EXPECT_EQ(read_folder_tokenizer(folder.path()).begin_token, "");
  write_text_atomically(folder / "added_tokens.json", R"({"<|end_of_text|>": 260, "<|new|>": 261})");
  EXPECT_THAT(refusal([&] { read_folder_tokenizer(folder.path()); }),
              HasSubstr("its tokenizer.json lacks: 261 \"<|new|>\""));
  write_text_atomically(folder / "added_tokens.json", "{}");
  write_text_atomically(folder / "tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  EXPECT_THAT(read_folder_tokenizer(folder.path()).left_out,
              ::testing::ElementsAre("chat_template of tokenizer_config.json"));
}

}  // namespace
}  // namespace terrace::exchange
