// Byte-level BPE: ids are those of the tokenizers package, every string of bytes comes back, and the file is read and
// written.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "terrace/base/random.h"
#include "terrace/base/text/json.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_encoder.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_tokenizer.h"
#include "terrace/data/text/tokenizer/sentencepiece/normal_form.h"
#include "tests/data/test_corpus.h"
#include "tests/paths.h"

namespace terrace::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Runs tests/data/byte_pair_cases.py, in a folder of its own.
class Cases {
 public:
  // Trains tokenizers, or takes one that is there.
  explicit Cases(const std::string& file = "") { run(file.empty() ? "" : " " + file); }

  BytePairTokenizer tokenizer(const std::string& name) const {
    return {parse_tokenizer_json(text(name + ".json"), name), name};
  }
  std::string text(const std::string& file) const { return read_text(folder_ / file); }
  std::vector<std::string> texts() const { return nlohmann::json::parse(text("texts.json")); }
  std::vector<Ids> ids(const std::string& name) const { return nlohmann::json::parse(text(name + ".ids")); }

  bool has_split_ids(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / (name + ".split.ids"));
  }

  // The ids that the package gives the texts with a tokenizer.json of ours.
  std::vector<Ids> ids_of_file(const std::string& bytes) const {
    folder_.write("written.json", bytes);
    run(" written.json");
    return ids("written");
  }

 private:
  void run(const std::string& more) const {
    const std::string command = tests::python() + " " + tests::source_dir().string() +
                                "/tests/data/byte_pair_cases.py " + folder_.path().string() + " " +
                                tests::source_dir().string() + more;
    ASSERT_EQ(std::system(command.c_str()), 0);
  }

  TemporaryFolder folder_;
};

void expect_equal(const BytePairTokenizer& tokenizer, const std::vector<std::string>& texts,
                  const std::vector<Ids>& expected, const std::string& name, SpecialTokens special) {
  ASSERT_EQ(texts.size(), expected.size());
  const auto encoder = tokenizer.make_encoder(special);
  size_t tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    Ids ids;
    encoder->encode(texts[i], true, true, ids);
    ASSERT_EQ(ids, expected[i]) << name << ", text " << i << ": " << texts[i].substr(0, 200);
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 100'000U);
}

// Parts as terrace data prepare cuts them.
Ids in_parts(const BytePairTokenizer& tokenizer, const std::string& text, size_t block) {
  const auto encoder = tokenizer.make_encoder(SpecialTokens::keep);
  Ids ids;
  bool starts = true;
  for (std::string_view rest = text; !rest.empty(); starts = false) {
    const size_t size = rest.size() > block ? tokenizer.cut(rest.substr(0, block)) : rest.size();
    encoder->encode(rest.substr(0, size), starts, size == rest.size(), ids);
    rest.remove_prefix(size);
  }
  return ids;
}

// One test, since training the tokenizers in Python takes seconds.
TEST(BytePair, IdsEqualThoseOfTheTokenizersPackage) {
  const Cases cases;
  const std::vector<std::string> texts = cases.texts();
  for (const std::string name :
       {"gpt2", "llama3", "qwen2", "prefixed", "digits", "composed", "neox", "dolma2", "deepseek", "falcon", "roberta",
        "merged", "words", "lines", "bert", "lines_of_text"}) {
    const BytePairTokenizer tokenizer = cases.tokenizer(name);
    expect_equal(tokenizer, texts, cases.ids(name), name, SpecialTokens::keep);
    if (cases.has_split_ids(name)) {
      expect_equal(tokenizer, texts, cases.ids(name + ".split"), name, SpecialTokens::split);
    }
    EXPECT_EQ(parse_tokenizer_json(dump_tokenizer_json(tokenizer.model()), "dumped"), tokenizer.model()) << name;
    // The lines of this tokenizer begin and end words, and the beginning of a part is taken for that of a line.
    if (name == "lines_of_text") continue;
    for (size_t i = 0; i < texts.size(); i += 3) {
      ASSERT_EQ(in_parts(tokenizer, texts[i], 4000), tokenizer.encode(texts[i], SpecialTokens::keep))
          << name << ", text " << i;
    }
  }
  const BytePairTokenizer llama3 = cases.tokenizer("llama3");
  EXPECT_EQ(llama3.end_token(), 0);
  EXPECT_EQ(llama3.vocabulary(), 3002);
  for (const char* name : {"llama3", "falcon", "roberta", "merged"}) {
    EXPECT_EQ(cases.ids_of_file(dump_tokenizer_json(cases.tokenizer(name).model())), cases.ids(name)) << name;
  }
  const std::vector<std::pair<std::string, std::string>> pairs =
      nlohmann::json::parse(cases.text("normal_form_c.json"));
  EXPECT_GT(pairs.size(), 250U);
  for (const auto& [text, expected] : pairs) {
    std::string buffer;
    ASSERT_EQ(to_normal_form_c(text, buffer), expected) << text.substr(0, 200);
  }
  const BytePairTokenizer composed = cases.tokenizer("composed");
  EXPECT_TRUE(composed.model().normal_form_c);
  EXPECT_EQ(cases.ids_of_file(dump_tokenizer_json(composed.model())), cases.ids("composed"));
  const BytePairModel older =
      parse_vocabulary_and_merges(cases.text("vocab.json"), cases.text("merges.txt"), "vocab.json");
  EXPECT_EQ(older, cases.tokenizer("gpt2").model());
}

// The 256 bytes, "the", and an end token.
BytePairModel small_model() {
  BytePairModel model;
  for (int byte = 0; byte < 256; ++byte) {
    model.vocabulary[spelled(std::string(1, static_cast<char>(byte)))] = static_cast<int32_t>(model.vocabulary.size());
  }
  for (const auto& [left, right] : {std::pair("t", "h"), std::pair("th", "e")}) {
    model.merges.emplace_back(left, right);
    model.vocabulary[std::string(left) + right] = static_cast<int32_t>(model.vocabulary.size());
  }
  model.added = {{.id = 258, .text = "<|endoftext|>"}};
  model.patterns = {gpt2_pattern};
  return model;
}

TEST(BytePair, MergesTheFirstOfTheListFirst) {
  BytePairModel model = small_model();
  const BytePairTokenizer tokenizer(model, "small");
  EXPECT_EQ(tokenizer.encode("the"), Ids{257});
  EXPECT_EQ(tokenizer.encode("th"), Ids{256});
  EXPECT_EQ(tokenizer.encode("the<|endoftext|>th", SpecialTokens::keep), (Ids{257, 258, 256}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the<|endoftext|>th")), "the<|endoftext|>th");
  // "h e" before "t h": the word splits otherwise.
  model.vocabulary["he"] = 259;
  model.merges.insert(model.merges.begin(), {"h", "e"});
  EXPECT_EQ(BytePairTokenizer(model, "small").encode("the").size(), 2U);
}

TEST(BytePair, EveryStringOfBytesRoundTrips) {
  const BytePairTokenizer tokenizer(small_model(), "small");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (uint64_t draw = 0; draw < 500; ++draw) {
    std::string text = all.substr(draw % 256) + sample_english().substr(draw, 50);
    for (uint64_t i = 0; i < draw % 90; ++i) text += static_cast<char>(philox_at(stream_key(draw, "bytes"), i, 0)[0]);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  BytePairEncoder encoder(tokenizer);
  Ids ids;
  encoder.encode("a\xFF\xFE ok \xE4\xB8", true, true, ids);
  EXPECT_EQ(encoder.counts(), (EncodeCounts{.invalid_bytes = 4}));
}

TEST(BytePair, ACorpusIsPreparedWithATokenizerJson) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("text.txt", sample_english())};
  options.output = folder / "corpus";
  options.tokenizer = folder.write("tokenizer.json", dump_tokenizer_json(small_model()));
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.vocabulary, 259);
  EXPECT_EQ(report.changed_parts, 0U);
  const TokenCorpus corpus(options.output);
  std::vector<int64_t> tokens(corpus.tokens());
  corpus.read(0, tokens, 259);
  EXPECT_EQ(tokens.back(), 258);
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  EXPECT_EQ(tokenizer->decode(Ids(tokens.begin(), tokens.end())), sample_english());
}

// A whole file with one component replaced.
std::string changed(const std::string& pointer, const Json& value) {
  Json file = Json::parse(dump_tokenizer_json(small_model()));
  file[Json::json_pointer(pointer)] = value;
  return file.dump();
}

TEST(BytePair, KeysOfTheModelMayBeNull) {
  for (const char* key : {"dropout", "byte_fallback", "ignore_merges", "continuing_subword_prefix"}) {
    const std::string json = changed(std::string("/model/") + key, nullptr);
    EXPECT_EQ(Tokenizer::from_bytes(json, "tokenizer.json")->encode("the"), Ids{257}) << key;
  }
}

TEST(BytePair, RefusesUnsupportedPartsByName) {
  const Json bytes{{"type", "ByteLevel"}};
  const std::vector<std::pair<std::string, std::string>> cases{
      {changed("/normalizer", {{"type", "NFKC"}}), "normalizer NFKC"},
      {changed("/model/type", "WordPiece"), "model WordPiece"},
      {changed("/model/byte_fallback", true), "byte_fallback"},
      {changed("/model/dropout", 0.1), "dropout 0.1"},
      {changed("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix \"</w>\""},
      {changed("/pre_tokenizer", nullptr), "no pre_tokenizer"},
      {changed("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}}),
       "normalizer Lowercase"},
      {changed("/pre_tokenizer", {{"type", "Metaspace"}}), "pre_tokenizer Metaspace"},
      {changed("/pre_tokenizer", {{"type", "Digits"}}), "pre_tokenizer Digits makes no bytes"},
      {changed("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {bytes, bytes}}}), "has ByteLevel 2 times"},
      {changed("/pre_tokenizer/pretokenizers/0/behavior", "Doubled"), "pre_tokenizer Split has behavior Doubled"},
      {changed("/decoder", {{"type", "WordPiece"}}), "decoder WordPiece"},
      {changed("/truncation", {{"max_length", 5}}), "truncation"},
      {changed("/added_tokens/0/lstrip", nullptr), "type must be boolean, but is null"},
      {changed("/added_tokens/0/normalized", nullptr), "type must be boolean, but is null"},
      {changed("/added_tokens/0/content", ""), "has no text"},
      {changed("/added_tokens/0/id", 999'999'999), "has id 999999999"},
      {changed("/model/merges/0", "t h e"), "\"t h e\" is not two spellings"},
      {changed("/model/merges/0", {"zz", "y"}), "a merge names \"zz\""},
      {changed("/model/vocab/the", 5), "id 5 stands for"},
      {changed("/model/vocab/the", "x"), "no valid tokenizer file"},
      {"{", "no valid tokenizer file"},
      {"{}", "it has no model"}};
  for (const auto& [text, said] : cases) {
    const std::string& json = text;
    EXPECT_THAT(user_error([&] { Tokenizer::from_bytes(json, "tokenizer.json"); }), HasSubstr(said));
  }
  BytePairModel model = small_model();
  model.vocabulary.erase(spelled(" "));
  EXPECT_THAT(user_error([&] { BytePairTokenizer(model, "file"); }), HasSubstr("1 of the 256 bytes have no token"));
  model = small_model();
  model.patterns = {"(a"};
  EXPECT_THAT(user_error([&] { BytePairTokenizer(model, "file"); }), HasSubstr("(a is no regular expression"));
  model.patterns = {"[a-z&&[^b]]"};
  EXPECT_THAT(user_error([&] { BytePairTokenizer(model, "file"); }), HasSubstr("&&"));
}

TEST(BytePair, TheEndTokenIsKnownByItsName) {
  BytePairModel model = small_model();
  EXPECT_EQ(BytePairTokenizer(model, "file").end_token(), 258);
  model.added = {{.id = 258, .text = "<|im_end|>"}, {.id = 259, .text = "<|end_of_text|>"}};
  EXPECT_EQ(BytePairTokenizer(model, "file").end_token(), 259);
  model.added = {{.id = 258, .text = "[only]"}};
  EXPECT_EQ(BytePairTokenizer(model, "file").end_token(), 258);
  model.added.push_back({.id = 259, .text = "[other]"});
  EXPECT_EQ(BytePairTokenizer(model, "file").end_token(), -1);
  model.added.push_back({.id = 260,
                         .text = "<\xEF\xBD\x9C"
                                 "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"});
  EXPECT_EQ(BytePairTokenizer(model, "file").end_token(), 260);
}

TEST(BytePair, AnEndTokenThatTheFileDoesNotCallSpecialIsAControlToken) {
  BytePairModel model = small_model();
  model.added = {{.id = 258, .text = "<|endoftext|>", .special = false}, {.id = 259, .text = "<|padding|>"}};
  const BytePairTokenizer tokenizer(model, "file");
  EXPECT_EQ(tokenizer.end_token(), 258);
  EXPECT_EQ(tokenizer.decode(Ids{258}), "");
  EXPECT_EQ(tokenizer.encode("the<|endoftext|>", SpecialTokens::keep), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the<|endoftext|>")), "the<|endoftext|>");
}

TEST(BytePair, AnOptionNamesTheEndToken) {
  const TemporaryFolder folder;
  BytePairModel model = small_model();
  model.added = {{.id = 258, .text = "[one]"}, {.id = 259, .text = "[two]"}};
  PrepareOptions options;
  options.inputs = {folder.write("text.txt", "the [one] th")};
  options.output = folder / "corpus";
  options.tokenizer = folder.write("tokenizer.json", dump_tokenizer_json(model));
  EXPECT_THAT(user_error([&] { prepare(options); }),
              HasSubstr("name one with --end-token, by its text or its number: its 2 control tokens are [one], [two]"));
  options.overwrite = true;
  for (const auto& [word, end] : {std::pair("[two]", 259), {"258", 258}, {"the", 257}}) {
    options.end_token = word;
    prepare(options);
    const TokenCorpus corpus(options.output);
    std::vector<int64_t> tokens(corpus.tokens());
    corpus.read(0, tokens, 260);
    EXPECT_EQ(tokens.back(), end) << word;
    EXPECT_EQ(std::count(tokens.begin(), tokens.end() - 1, 258), 0) << "a control token's text is split";
  }
  options.special_tokens = SpecialTokens::keep;
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.counts.special_texts, 1U);
  const TokenCorpus corpus(options.output);
  std::vector<int64_t> tokens(corpus.tokens());
  corpus.read(0, tokens, 260);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 258), 1);
  for (const auto& [word, said] : {std::pair("260", "--end-token 260: the tokenizer has tokens 0 to 259"),
                                   {"two words", "--end-token 'two words' is 9 tokens of this tokenizer"}}) {
    options.end_token = word;
    EXPECT_THAT(user_error([&] { prepare(options); }), HasSubstr(said));
  }
}

// Bytes that no text of UTF-8 has need no token.
TEST(BytePair, BytesWithoutATokenBecomeU_FFFD) {
  BytePairModel model = small_model();
  model.vocabulary.erase(spelled("\xFF"));
  const BytePairTokenizer tokenizer(model, "file");
  EXPECT_FALSE(tokenizer.has_bytes());
  EXPECT_EQ(tokenizer.encode("a\xFF the"), tokenizer.encode("a\xEF\xBF\xBD the"));
  BytePairEncoder encoder(tokenizer);
  Ids ids;
  encoder.encode("\xFF\xFE", true, true, ids);
  EXPECT_EQ(encoder.counts(), (EncodeCounts{.invalid_bytes = 2, .replaced_bytes = 1}));
}

TEST(BytePair, RealTokenizersGiveTheIdsOfTheTokenizersPackage) {
  const std::filesystem::path shared = tests::source_dir().parent_path() / "shared/cases/text";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no ../shared/cases/text";
  for (const char* name : {"gpt_neox_20b_tokenizer.json", "olmo2_dolma2_tokenizer.json"}) {
    const Cases cases((shared / name).string());
    const BytePairTokenizer tokenizer(parse_tokenizer_json(read_text(shared / name), name), name);
    EXPECT_EQ(tokenizer.end_token_name(), "<|endoftext|>");
    const std::string stem = std::filesystem::path(name).stem().string();
    expect_equal(tokenizer, cases.texts(), cases.ids(stem), stem, SpecialTokens::keep);
  }
}

}  // namespace
}  // namespace terrace::data
