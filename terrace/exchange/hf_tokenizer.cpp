// Writes and reads the files of a tokenizer in a folder for transformers.
#include "terrace/exchange/hf_tokenizer.h"

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/data/text/tokenizer/byte_pair_model.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;

// AutoTokenizer learns the kind of the tokenizer from these settings. It adds no token before or after a document.
Json settings(const char* tokenizer_class, int64_t sequence) {
  return {{"tokenizer_class", tokenizer_class},
          {"model_max_length", sequence},
          {"clean_up_tokenization_spaces", false},
          {"add_bos_token", false},
          {"add_eos_token", false}};
}

}  // namespace

void check_fits(const data::Tokenizer& tokenizer, int64_t vocabulary, const fs::path& path) {
  if (tokenizer.vocabulary() <= vocabulary) return;
  throw UserError::of("tokenizer {} has {} tokens, but the model has {}: use the tokenizer it was trained with",
                      path.string(), tokenizer.vocabulary(), vocabulary);
}

void add_hf_tokenizer(std::string bytes, const data::Tokenizer& tokenizer, int64_t sequence,
                      checkpoint::HfContents& contents) {
  const std::string name = data::tokenizer_file_name(bytes);
  const bool json = name == "tokenizer.json";
  Json config = settings(json ? "PreTrainedTokenizerFast" : "LlamaTokenizer", sequence);
  if (!json) {
    config["legacy"] = true;  // treats spaces after control tokens as SentencePiece does
    config["add_prefix_space"] = false;
  }
  // Without a named token the class would add "<s>" to the vocabulary.
  if (tokenizer.end_token() >= 0) config["bos_token"] = config["eos_token"] = tokenizer.end_token_name();
  contents.texts.emplace_back(name, std::move(bytes));
  contents.texts.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
}

std::string read_hf_tokenizer(const fs::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    if (fs::exists(folder / name)) return read_text(folder / name);
  }
  const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (!fs::exists(vocabulary) || !fs::exists(merges)) return "";
  return data::dump_tokenizer_json(
      data::parse_vocabulary_and_merges(read_text(vocabulary), read_text(merges), vocabulary.string()));
}

const std::set<std::string>& files_of_tokenizer() {
  static const std::set<std::string> names{"tokenizer.json",   "tokenizer.model",       "vocab.json",
                                           "merges.txt",       "tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json"};
  return names;
}

}  // namespace terrace::exchange
