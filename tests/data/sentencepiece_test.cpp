// The ids of SentencePiece models of every kind are those of the package sentencepiece, for whole texts and for texts
// in parts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "terrace/base/text/json.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_encoder.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/utf8.h"
#include "tests/data/test_corpus.h"
#include "tests/paths.h"

namespace terrace::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Runs tests/data/sentencepiece_cases.py in a folder.
void run_cases(const TemporaryFolder& folder, const std::string& more = "") {
  const std::string command = tests::python() + " " + tests::source_dir().string() +
                              "/tests/data/sentencepiece_cases.py " + folder.path().string() + " " +
                              tests::source_dir().string() + more;
  ASSERT_EQ(std::system(command.c_str()), 0);
}

template <typename Value>
Value json_of(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path)).get<Value>();
}

// Whether a character or a few of them are repeated so often that a text may have no place to be cut.
bool has_long_run(const std::string& text) {
  constexpr size_t run = 150;
  for (size_t at = 0; at + run < text.size(); at += 20) {
    for (size_t period : {1, 2, 3, 5}) {
      if (text.compare(at, run - period, text, at + period, run - period) == 0) return true;
    }
  }
  return false;
}

// Parts as terrace data prepare cuts them.
Ids in_parts(const SentencePieceTokenizer& tokenizer, const std::string& text, size_t block) {
  SentencePieceEncoder encoder(tokenizer);
  Ids ids;
  bool starts = true;
  std::string_view rest = text;
  do {
    const size_t size = rest.size() > block ? tokenizer.cut(rest.substr(0, block)) : rest.size();
    encoder.encode(rest.substr(0, size), starts, size == rest.size(), ids);
    starts = false;
    rest.remove_prefix(size);
  } while (!rest.empty());
  return ids;
}

// One test, since training the models in Python takes seconds.
TEST(SentencePiece, IdsEqualThoseOfItsOwnPackage) {
  const TemporaryFolder folder;
  run_cases(folder);
  const auto texts = json_of<std::vector<std::string>>(folder.path() / "texts.json");
  const auto names = json_of<std::vector<std::string>>(folder.path() / "models.json");
  EXPECT_GT(names.size(), 16U);
  for (const std::string& name : names) {
    const auto tokenizer = SentencePieceTokenizer::from_model(read_text(folder.path() / (name + ".model")), name);
    const auto expected = json_of<std::vector<Ids>>(folder.path() / (name + ".ids"));
    SentencePieceEncoder encoder(tokenizer);
    size_t compared_in_parts = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      Ids ids;
      encoder.encode(texts[i], true, true, ids);
      ASSERT_EQ(ids, expected[i]) << name << ", text " << i << ": " << texts[i].substr(0, 200);
      // Rounding tells equal unigram scores apart, so that only whole texts have the same ids; words are whole too.
      if (name.starts_with("unigram") || name == "word") continue;
      if (has_long_run(texts[i])) continue;
      ASSERT_EQ(in_parts(tokenizer, texts[i], 700), expected[i])
          << name << " in parts, text " << i << ": " << texts[i].substr(0, 200);
      if (texts[i].size() > 700) ++compared_in_parts;
    }
    if (!name.starts_with("unigram") && name != "word") {
      EXPECT_GT(compared_in_parts, 60U) << name;
    }
  }
}

// With pieces for all control characters there is no character that could stand for the beginning of a text.
TEST(SentencePiece, RealModelsGiveTheIdsOfItsOwnPackage) {
  const std::filesystem::path shared = tests::source_dir().parent_path() / "shared/cases/text";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no ../shared/cases/text";
  const TemporaryFolder folder;
  std::string models;
  std::vector<std::filesystem::path> paths;
  for (const char* name : {"mistral_v1_tokenizer.model", "llama2_tokenizer.model"}) {
    if (!std::filesystem::exists(shared / name)) continue;
    paths.push_back(shared / name);
    models += " " + paths.back().string();
  }
  run_cases(folder, models);
  const auto texts = json_of<std::vector<std::string>>(folder.path() / "texts.json");
  for (const auto& path : paths) {
    const auto tokenizer = SentencePieceTokenizer::from_model(read_text(path), path.string());
    const auto expected = json_of<std::vector<Ids>>(folder.path() / (path.filename().string() + ".ids"));
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(tokenizer.encode(texts[i]), expected[i]) << path << ", text " << i << ": " << texts[i].substr(0, 200);
      if (has_long_run(texts[i])) continue;
      ASSERT_EQ(in_parts(tokenizer, texts[i], 1000), expected[i]) << path << " in parts, text " << i;
    }
  }
}

// A model that the package trains on the sample, by its settings.
std::string trained(const TemporaryFolder& folder, const std::string& settings) {
  run_python(folder,
             R"(
import sys, sentencepiece
text = open(sys.argv[1], encoding='utf-8').read()
sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text.split('\n')), model_prefix=sys.argv[2], vocab_size=470,
                                         minloglevel=2, hard_vocab_limit=False, )" +
                 settings + ")\n",
             {folder.write("english", sample_english()), folder / "trained"});
  return read_text(folder / "trained.model");
}

PrepareReport prepare_text(const TemporaryFolder& folder, PrepareOptions options, const std::string& file,
                           const std::string& text) {
  options.inputs = {folder.write(file, text)};
  options.output = folder / "corpus";
  options.overwrite = true;
  return prepare(options);
}

Ids tokens_of(const std::string& corpus, int64_t vocabulary) {
  const TokenCorpus opened(corpus);
  std::vector<int64_t> tokens(opened.tokens());
  opened.read(0, tokens, vocabulary);
  return {tokens.begin(), tokens.end()};
}

// Lines that must stay whole until separators are known are cut elsewhere than the tokens allow.
TEST(SentencePiece, BlocksDoNotChangeTheIdsOfADocument) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.tokenizer = folder.write("model", trained(folder,
                                                    "model_type='bpe', byte_fallback=True, "
                                                    "normalization_rule_name='identity', "
                                                    "remove_extra_whitespaces=False, "
                                                    "user_defined_symbols=['\\n\\n', '\\n\\n\\n', '.\\n']"));
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Short lines.\n\n\nand more of them.\n\n";
  Ids expected = tokenizer->encode(text);
  expected.push_back(tokenizer->end_token());
  for (const uint64_t block : {20, 37, 50, 64, 1000}) {
    options.rules = {.block_bytes = block};
    prepare_text(folder, options, "text.txt", text);
    EXPECT_EQ(tokens_of(folder / "corpus", tokenizer->vocabulary()), expected) << block;
    options.rules.separator = "-----";
    prepare_text(folder, options, "text.txt", text);
    EXPECT_EQ(tokens_of(folder / "corpus", tokenizer->vocabulary()), expected) << "with a separator, " << block;
  }
}

TEST(SentencePiece, WarningsSayWhyPartsChanged) {
  const TemporaryFolder folder;
  PrepareOptions options;
  const std::string odd = "one \xE2\x96\x81 two";
  options.tokenizer = folder.write("lossless", sample_model());
  EXPECT_EQ(prepare_text(folder, options, "text.txt", "plain words").warnings(), std::vector<std::string>{});
  EXPECT_THAT(prepare_text(folder, options, "text.txt", odd).warnings(),
              testing::ElementsAre(HasSubstr("1 character U+2581 was encoded as spaces"),
                                   HasSubstr("since the tokenizer takes U+2581 for a space")));
  options.tokenizer = folder.write("nfkc", trained(folder, "model_type='bpe', byte_fallback=True"));
  EXPECT_THAT(prepare_text(folder, options, "text.txt", "two  blanks").warnings(),
              testing::ElementsAre(HasSubstr("since the tokenizer normalises text")));
  options.tokenizer = folder.write("prefix", trained(folder,
                                                     "model_type='bpe', byte_fallback=True, "
                                                     "normalization_rule_name='identity', "
                                                     "remove_extra_whitespaces=False"));
  const std::string controls = "two  blanks\n\nand \x01\x02\x03\x04\x05\x06\x07\x08 controls";
  EXPECT_EQ(prepare_text(folder, options, "text.txt", controls).warnings(), std::vector<std::string>{});
}

TEST(SentencePiece, BytesOutsideOfUtf8AreKeptOrReplacedAsThePackageReplacesThem) {
  const TemporaryFolder folder;
  const auto lossless = SentencePieceTokenizer::from_model(sample_model(), "lossless");
  EXPECT_EQ(lossless.decode(lossless.encode("a\xFF\xC3 b\xE2\x96")), "a\xFF\xC3 b\xE2\x96");
  const auto without = SentencePieceTokenizer::from_model(trained(folder, "model_type='bpe'"), "without bytes");
  const std::string expected = run_python(folder, R"(
import sys, sentencepiece
print(*sentencepiece.SentencePieceProcessor(model_file=sys.argv[1]).encode(b'sea\xff\xc3 ship \xe2\x96'))
)",
                                          {folder / "trained.model"});
  EXPECT_EQ(fmt::format("{}\n", fmt::join(without.encode("sea\xFF\xC3 ship \xE2\x96"), " ")), expected);
  SentencePieceEncoder encoder(without);
  Ids ids;
  encoder.encode("sea\xFF\xC3 ship", true, true, ids);
  EXPECT_EQ(encoder.counts().replaced_bytes, 2U);
}

TEST(SentencePiece, TextsOfControlTokensAreSplitOrKept) {
  const auto tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  const std::string text = "the </s> sea";
  const Ids split = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(split), text);
  Ids kept = tokenizer.encode("the ");
  kept.push_back(tokenizer.end_token());
  for (int32_t id : tokenizer.encode(" sea")) kept.push_back(id);
  EXPECT_EQ(tokenizer.encode(text, SpecialTokens::keep), kept);
  EXPECT_EQ(tokenizer.token_named("--end-token", "</s>"), tokenizer.end_token());

  const TemporaryFolder folder;
  PrepareOptions options;
  options.tokenizer = folder.write("model", sample_model());
  EXPECT_THAT(
      prepare_text(folder, options, "text.txt", text).warnings(),
      testing::ElementsAre(HasSubstr("1 text of a control token was encoded as plain text; --special-tokens keep")));
  EXPECT_EQ(tokens_of(folder / "corpus", tokenizer.vocabulary()).size(), split.size() + 1);
  options.special_tokens = SpecialTokens::keep;
  EXPECT_THAT(prepare_text(folder, options, "text.txt", text).warnings(),
              testing::ElementsAre(HasSubstr("encoded as that token"), HasSubstr("made control tokens")));
  EXPECT_EQ(tokens_of(folder / "corpus", tokenizer.vocabulary()).size(), kept.size() + 1);
}

// No exact place to cut is known where every pair of characters may be in a piece, and the text is cut nonetheless.
TEST(SentencePiece, ALongTextWithoutAPlaceToCutLosesNothing) {
  const TemporaryFolder folder;
  const auto unigram = SentencePieceTokenizer::from_model(
      trained(folder,
              "model_type='unigram', byte_fallback=True, normalization_rule_name='identity', "
              "remove_extra_whitespaces=False"),
      "unigram");
  const std::string text(SentencePieceEncoder::longest_segment * 5 / 2, 'e');
  EXPECT_EQ(unigram.decode(unigram.encode(text)), text);
}

}  // namespace
}  // namespace terrace::data
