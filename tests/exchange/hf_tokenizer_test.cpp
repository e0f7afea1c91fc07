// Tests that an exported tokenizer gives our ids in AutoTokenizer, and that imports read the tokenizers of folders.
#include "terrace/exchange/hf_tokenizer.h"

#include <gmock/gmock.h>

#include <fstream>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/data/text/tokenizer/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair_model.h"
#include "terrace/data/text/tokenizer/tokenizer_training.h"
#include "tests/pytorch/reference.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& texts() {
  static const std::vector<std::string> list{"the number 7 comes before",
                                             "",
                                             " lead",
                                             "two  spaces\n\nand 123 lines\n",
                                             "\xC3\xA9t\xC3\xA9 \xE6\x9D\xB1\xE4\xBA\xAC \xF0\x9F\x98\x80",
                                             "It's 'it'"};
  return list;
}

std::string sentencepiece_model(const ScratchFolder& folder) {
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 2000; ++i) text << "the number " << i << " comes before the number " << i + 1 << "\n";
  text.close();
  return data::train_tokenizer(data::find_input_files({folder / "text.txt"}, data::FormatChoice::plain), {},
                               {.vocabulary = 300});
}

data::BytePairModel byte_pairs() {
  data::BytePairModel model;
  const auto add = [&](const std::string& spelling) {
    const auto id = static_cast<int32_t>(model.vocabulary.size());
    model.vocabulary[spelling] = id;
  };
  for (int byte = 0; byte < 256; ++byte) add(data::spelled(std::string(1, static_cast<char>(byte))));
  const std::string space = data::spelled(" ");
  for (const auto& [left, right] : {std::pair<std::string, std::string>{"t", "h"}, {"th", "e"}, {space, "n"}}) {
    model.merges.emplace_back(left, right);
    add(left + right);
  }
  model.added = {{.id = 259, .text = "<|endoftext|>"}};
  model.patterns = {data::gpt2_pattern};
  return model;
}

// Our ids, packed as in the Python case: the number of texts, then each text's number of ids and its ids.
at::Tensor our_ids(const data::Tokenizer& tokenizer) {
  std::vector<int64_t> packed{static_cast<int64_t>(texts().size())};
  for (const std::string& text : texts()) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    packed.push_back(static_cast<int64_t>(ids.size()));
    packed.insert(packed.end(), ids.begin(), ids.end());
  }
  at::Tensor flat = at::empty({static_cast<int64_t>(packed.size())}, at::kLong);
  std::copy(packed.begin(), packed.end(), flat.mutable_data_ptr<int64_t>());
  return flat;
}

TEST(HfTokenizer, AutoTokenizerGivesOurIds) {
  const ScratchFolder folder;
  testing::PyTorch pytorch;
  for (const std::string& bytes : {sentencepiece_model(folder), data::dump_tokenizer_json(byte_pairs())}) {
    const std::string name = data::tokenizer_file_name(bytes);
    const auto tokenizer = data::Tokenizer::from_bytes(bytes, name);
    checkpoint::HfContents contents;
    add_hf_tokenizer(bytes, *tokenizer, 100, contents);
    // AutoTokenizer needs the kind of model, which it reads first.
    contents.texts.emplace_back("config.json", R"({"model_type": "llama"})");
    contents.tensors = {{"a", at::empty({1})}};
    checkpoint::write_hf_folder(folder / (name + ".hf"), contents);
    for (const bool fast : {false, true}) {
      const Json options = {{"folder", folder / (name + ".hf")}, {"texts", texts()}, {"fast", fast}};
      const auto result = pytorch.run("exchange/hf_cases.py", "encode", options, at::kFloat, {}).theirs;
      EXPECT_TRUE(result.at("ids").equal(our_ids(*tokenizer))) << name << ", fast " << fast << "\n"
                                                               << result.at("ids") << our_ids(*tokenizer);
      EXPECT_TRUE(result.at("same").all().item<bool>()) << name;
      EXPECT_EQ(result.at("end").item<int64_t>(), tokenizer->end_token()) << name;
    }
  }
}

TEST(HfTokenizer, AnImportTakesTheFileThatTheFolderHas) {
  const ScratchFolder folder;
  EXPECT_EQ(read_hf_tokenizer(folder.path()), "");
  const data::BytePairModel model = byte_pairs();
  Json vocabulary = Json::object();
  for (const auto& [spelling, id] : model.vocabulary) vocabulary[spelling] = id;
  vocabulary["<|endoftext|>"] = 259;
  write_text_atomically(folder / "vocab.json", vocabulary.dump());
  const std::string space = data::spelled(" ");
  write_text_atomically(folder / "merges.txt", "#version: 0.2\nt h\nth e\n" + space + " n\n");
  const auto older = data::Tokenizer::from_bytes(read_hf_tokenizer(folder.path()), "older");
  const auto tokenizer = data::Tokenizer::from_bytes(data::dump_tokenizer_json(model), "json");
  for (const std::string& text : texts()) EXPECT_EQ(older->encode(text), tokenizer->encode(text));
  EXPECT_EQ(older->end_token(), 259);
  write_text_atomically(folder / "tokenizer.json", "{}");
  EXPECT_EQ(read_hf_tokenizer(folder.path()), "{}");
  const std::string trained = sentencepiece_model(folder);
  write_text_atomically(folder / "tokenizer.model", trained);
  EXPECT_EQ(read_hf_tokenizer(folder.path()), trained);
}

TEST(HfTokenizer, ATokenizerWithMoreTokensThanTheModelIsRefused) {
  const auto tokenizer = data::Tokenizer::from_bytes(data::dump_tokenizer_json(byte_pairs()), "json");
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
