// Tests that imports read the tokenizers of folders, and that those are refused that do not fit the model.
#include "terrace/exchange/hf_tokenizer.h"

#include <gmock/gmock.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/exchange/tokenizer_models.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {
namespace {

using ::testing::HasSubstr;

TEST(HfTokenizer, AnImportTakesTheFileThatTheFolderHas) {
  const ScratchFolder folder;
  EXPECT_EQ(read_hf_tokenizer(folder.path()), "");
  const data::BytePairModel model = byte_pairs({"<|endoftext|>"});
  Json vocabulary = Json::object();
  for (const auto& [spelling, id] : model.vocabulary) vocabulary[spelling] = id;
  vocabulary["<|endoftext|>"] = 259;
  write_text_atomically(folder / "vocab.json", vocabulary.dump());
  const std::string space = data::spelled(" ");
  write_text_atomically(folder / "merges.txt", "#version: 0.2\nt h\nth e\n" + space + " n\n");
  const auto older = data::Tokenizer::from_bytes(read_hf_tokenizer(folder.path()), "older");
  const auto tokenizer = data::Tokenizer::from_bytes(data::dump_tokenizer_json(model), "json");
  for (const std::string& text : mixed_texts) EXPECT_EQ(older->encode(text), tokenizer->encode(text));
  EXPECT_EQ(older->end_token(), 259);
  write_text_atomically(folder / "tokenizer.json", "{}");
  EXPECT_EQ(read_hf_tokenizer(folder.path()), "{}");
  const std::string trained = sentencepiece_model(folder);
  write_text_atomically(folder / "tokenizer.model", trained);
  EXPECT_EQ(read_hf_tokenizer(folder.path()), trained);
}

TEST(HfTokenizer, ATokenizerWithMoreTokensThanTheModelIsRefused) {
  const auto tokenizer = data::Tokenizer::from_bytes(data::dump_tokenizer_json(byte_pairs({"<|endoftext|>"})), "json");
  EXPECT_NO_THROW(check_fits(*tokenizer, 260, "t.json"));
  try {
    check_fits(*tokenizer, 259, "t.json");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("t.json has 260 tokens, but the model has 259"));
  }
}

}  // namespace
}  // namespace terrace::exchange
