// Every string of bytes is decoded exactly, and the ids equal SentencePiece's own.
#include "terrace/base/random.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_encoder.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using namespace std::string_literals;

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> texts{"",
                                              " ",
                                              "  ",
                                              "\n",
                                              "\n\n\n",
                                              "a",
                                              " a",
                                              "a ",
                                              "tabs\t\tand\r\nreturns",
                                              "  two  spaces  ",
                                              "a\0b\0"s,
                                              "\xE2\x96\x81",
                                              "x\xE2\x96\x81y \xE2\x96\x81\xE2\x96\x81 ",
                                              "\xFF",
                                              "ab\xC3 cd\xE2\x96",
                                              "\xED\xA0\x80",
                                              "</s> <unk> <0x41> <s>",
                                              "\xE2\x96\x85 \xEF\xBF\xBD \xEF\xBB\xBF",
                                              "\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D",
                                              "\x01\x02 \x7F",
                                              "a\n b\n\n  c",
                                              " \n \n",
                                              "\xE2\x81\x87",
                                              std::string(70, 'z') + " " + std::string(20'000, 'w')};
  return texts;
}

// Bytes of which most look like text.
std::string random_text(uint64_t number) {
  const PhiloxKey key = stream_key(number, "random text");
  const std::vector<std::string> parts{" ", "\n", "the ", "sea", "\xC3\xA9", "\xE2\x96\x81", "\xFF", "\t", "7", "word"};
  std::string text;
  const uint32_t length = philox_at(key, 0, 1)[0] % 300;
  for (uint64_t i = 0; i < length; ++i) {
    const PhiloxBlock draw = philox_at(key, i, 0);
    text += draw[1] % 8 == 0 ? std::string(1, static_cast<char>(draw[0])) : parts[draw[0] % parts.size()];
  }
  return text;
}

// SentencePiece does not tell its mark for a space from a space.
std::string without_marks(std::string text) {
  for (size_t at = text.find(space_mark); at != std::string::npos; at = text.find(space_mark, at)) {
    text.replace(at, space_mark.size(), " ");
  }
  return text;
}

TEST(Tokenizer, EveryStringOfBytesRoundTrips) {
  const SentencePieceTokenizer tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  EXPECT_EQ(tokenizer.vocabulary(), 500);
  EXPECT_TRUE(tokenizer.has_bytes());
  std::vector<std::string> texts = odd_texts();
  texts.push_back(sample_english());
  for (uint64_t i = 0; i < 300; ++i) texts.push_back(random_text(i));
  for (const std::string& text : texts) ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), without_marks(text));
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all_bytes)), all_bytes);
}

TEST(Tokenizer, CountsBytesAndMarksThatSentencePieceChanges) {
  const SentencePieceTokenizer tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  SentencePieceEncoder encoder(tokenizer);
  std::vector<int32_t> ids;
  encoder.encode("a\xE2\x96\x81 b\xFF\xFE c", true, true, ids);
  EXPECT_EQ(encoder.counts(), (EncodeCounts{.invalid_bytes = 2, .space_marks = 1}));
}

TEST(Tokenizer, TextGivenInPartsHasTheSameIds) {
  const SentencePieceTokenizer tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  const std::string text = sample_english();
  const std::vector<int32_t> whole = tokenizer.encode(text);
  for (size_t block : {64, 100, 1000, 5000}) {
    SentencePieceEncoder encoder(tokenizer);
    std::vector<int32_t> ids;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t size = rest.size() <= block ? rest.size() : tokenizer.cut(rest.substr(0, block));
      encoder.encode(rest.substr(0, size), rest.size() == text.size(), size == rest.size(), ids);
      rest.remove_prefix(size);
    }
    EXPECT_EQ(ids, whole) << block;
  }
}

// Python's package trains models of several kinds, and prints the ids of each line of a file for each.
constexpr const char* python_models = R"(
import sys, sentencepiece as spm
folder = sys.argv[1]
text = open(folder + '/english', encoding='utf-8', newline='').read()
lines = [line for line in text.split('\n') if line]
kinds = {
  'bpe_plain': dict(model_type='bpe', byte_fallback=True, normalization_rule_name='identity', add_dummy_prefix=False,
                    remove_extra_whitespaces=False),
  'bpe_dummy_prefix': dict(model_type='bpe', byte_fallback=True, normalization_rule_name='identity',
                           remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
  'bpe_across_words': dict(model_type='bpe', byte_fallback=True, normalization_rule_name='identity',
                           split_by_whitespace=False, remove_extra_whitespaces=False),
  'unigram_normalized': dict(model_type='unigram', normalization_rule_name='nmt_nfkc', hard_vocab_limit=False),
}
for name, settings in kinds.items():
  spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=folder + '/' + name, vocab_size=480,
                                 minloglevel=2, character_coverage=1.0, **settings)
  model = spm.SentencePieceProcessor(model_file=folder + '/' + name + '.model')
  with open(folder + '/' + name + '.ids', 'w') as out:
    for line in [text] + lines:
      print(*model.encode(line), file=out)
)";

TEST(Tokenizer, IdsEqualThoseOfPythonsPackageForTheWholeText) {
  const TemporaryFolder folder;
  const std::string text = sample_english();
  folder.write("english", text);
  run_python(folder, python_models, {folder.path().string()});
  for (const std::string name : {"bpe_plain", "bpe_dummy_prefix", "bpe_across_words", "unigram_normalized"}) {
    const auto tokenizer = SentencePieceTokenizer::from_model(read_text(folder / (name + ".model")), name);
    std::ifstream expected(folder / (name + ".ids"));
    std::vector<std::string> lines{text};
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      if (end > at) lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    for (const std::string& line : lines) {
      std::string ids, expected_ids;
      for (int32_t id : tokenizer.encode(line)) ids += (ids.empty() ? "" : " ") + std::to_string(id);
      std::getline(expected, expected_ids);
      ASSERT_EQ(ids, expected_ids) << name << ": " << line.substr(0, 100);
    }
  }
}

// More words than are remembered, each met twice or more, so that they take each other's places.
std::string many_words() {
  std::string text;
  for (uint64_t i = 0; i < 200'000; ++i) {
    const uint32_t number = philox_at({1, 2}, i, 0)[0] % 90'000;
    for (uint32_t rest = number + 1; rest > 0; rest /= 20) text += static_cast<char>('a' + rest % 20);
    text += i % 11 == 0 ? "\n" : " ";
  }
  return text;
}

TEST(Tokenizer, ForgottenWordsKeepTheirIds) {
  const TemporaryFolder folder;
  const std::string text = many_words();
  const SentencePieceTokenizer tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  const std::vector<int32_t> ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
  const std::string output =
      run_python(folder, R"(
import sys, numpy, sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
text = open(sys.argv[2], newline='').read()
print(numpy.fromfile(sys.argv[3], dtype=numpy.int32).tolist() == model.encode(text))
)",
                 {folder.write("model", sample_model()), folder.write("text", text), folder.write("ids", bytes)});
  EXPECT_EQ(output, "True\n");
}

TEST(Tokenizer, ADummyPrefixLosesNothing) {
  const TemporaryFolder folder;
  folder.write("english", sample_english());
  run_python(folder, python_models, {folder.path().string()});
  for (const std::string name : {"bpe_dummy_prefix", "bpe_across_words"}) {
    const auto tokenizer = SentencePieceTokenizer::from_model(read_text(folder / (name + ".model")), name);
    for (const std::string& text : odd_texts()) {
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), without_marks(text)) << name;
    }
    for (uint64_t i = 0; i < 300; ++i) {
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(random_text(i))), without_marks(random_text(i))) << name;
    }
  }
}

TEST(Tokenizer, TrainingIsRepeatableAndBounded) {
  const TemporaryFolder folder;
  const std::vector<InputFile> files{{folder.write("text", sample_english()), TextFormat::plain, 1}};
  EXPECT_EQ(train_tokenizer(files, {}, {.vocabulary = 500}), sample_model());
  for (uint64_t limit : {1000, 20'000}) {
    TextSample sample(limit);
    for (int i = 0; i < 20; ++i) sample.add(sample_english());
    uint64_t bytes = 0;
    for (const std::string& piece : sample.pieces()) bytes += piece.size();
    EXPECT_LE(bytes, limit);
    EXPECT_GT(bytes, limit / 8);
  }
}

TEST(Tokenizer, RefusesBadModelsAndVocabulariesWithTheReason) {
  const TemporaryFolder folder;
  EXPECT_NE(user_error([&] { Tokenizer::open(folder / "absent"); }).find("absent"), std::string::npos);
  EXPECT_NE(user_error([&] { Tokenizer::open(folder.write("empty", "")); }).find("not a SentencePiece model"),
            std::string::npos);
  EXPECT_NE(user_error([&] { Tokenizer::open(folder.write("text", "just text")); }).find("not a SentencePiece model"),
            std::string::npos);
  const std::vector<InputFile> files{{folder.write("short", "few words"), TextFormat::plain, 9}};
  EXPECT_NE(user_error([&] { train_tokenizer(files, {}, {.vocabulary = 200}); }).find("too small"), std::string::npos);
  EXPECT_NE(user_error([&] {
              train_tokenizer(files, {}, {.vocabulary = 5000});
            }).find("--vocabulary 5000 is too large: this text gives at most "),
            std::string::npos);
  // 94 characters, 256 bytes, <unk> and </s>, and the mark for a space.
  std::string letters;
  for (char letter = '!'; letter <= '~'; ++letter) letters += letter;
  const std::vector<InputFile> many{{folder.write("many", letters + " " + letters), TextFormat::plain, 189}};
  EXPECT_NE(
      user_error([&] { train_tokenizer(many, {}, {.vocabulary = 300}); }).find("the control tokens are 353; give "),
      std::string::npos);
  const std::vector<InputFile> blank{{folder.write("blank", "\t\t"), TextFormat::plain, 2}};
  EXPECT_NE(user_error([&] { train_tokenizer(blank, {}, {.vocabulary = 5000}); }).find("no text"), std::string::npos);
}

}  // namespace
}  // namespace terrace::data
