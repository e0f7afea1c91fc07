// Writes and reads the files of a tokenizer in a folder for transformers.
#include "terrace/exchange/hf_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_json.h"
#include "terrace/exchange/post_processor.h"
#include "terrace/exchange/side_tokens.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;

constexpr const char* json_name = "tokenizer.json";
constexpr const char* model_name = "tokenizer.model";

// The tokenizer.json whose post-processor puts the token `begin`, whose text is given, before each text and no other.
std::string with_begin(std::string file, int64_t begin, const std::string& text) {
  AddedAround wanted;
  if (begin >= 0) wanted.before = {begin};
  if (added_around(file, json_name) == wanted) return file;
  return with_post_processor(file, begin < 0 ? Json() : begin_token_processor(text, begin));
}

// The settings with which AutoTokenizer gives our ids where the tokenizers package has no such model: the class reads
// tokenizer.model itself.
Json settings_of_model_alone(bool dummy_prefix) {
  return {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", true}, {"add_prefix_space", dummy_prefix}};
}

// A tokenizer.json keeps the tokens that it has; others would be lost.
void check_side_tokens(const std::vector<data::AddedToken>& tokens, const data::BytePairModel& model,
                       const std::string& folder) {
  std::vector<std::string> missing;
  for (const data::AddedToken& token : tokens) {
    const auto own = std::ranges::find(model.added, token.id, &data::AddedToken::id);
    const bool in_vocabulary = model.vocabulary.contains(token.text) && model.vocabulary.at(token.text) == token.id;
    if (in_vocabulary || (own != model.added.end() && own->text == token.text)) continue;
    missing.push_back(fmt::format("{} \"{}\"", token.id, token.text));
  }
  if (missing.empty()) return;
  throw UserError::of(
      "{}: added_tokens.json or tokenizer_config.json has tokens that its tokenizer.json lacks: {}; write the files "
      "again in Python: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
      folder, fmt::join(missing, ", "));
}

std::string bytes_of_pair(const fs::path& vocabulary, const fs::path& merges, std::vector<data::AddedToken> tokens) {
  data::BytePairModel model =
      data::parse_vocabulary_and_merges(read_text(vocabulary), read_text(merges), vocabulary.string());
  for (data::AddedToken& token : tokens) {
    if (std::ranges::find(model.added, token.id, &data::AddedToken::id) == model.added.end()) {
      model.added.push_back(std::move(token));
    }
  }
  return data::dump_tokenizer_json(model);
}

// Whether AutoTokenizer puts the begin token before texts; `otherwise` where the configuration does not say.
bool adds_begin_token(const SideFiles& files, bool otherwise) {
  const Json said = files.config.value("add_bos_token", Json());
  return said.is_boolean() ? said.get<bool>() : otherwise;
}

// Reads a SentencePiece model, which LlamaTokenizer opens.
FolderTokenizer read_model(const fs::path& folder, const SideFiles& files) {
  const fs::path path = folder / model_name;
  const bool restarts = files.config.value("legacy", Json(true)) != false;
  FolderTokenizer found{
      .bytes = data::with_added_tokens(read_text(path), side_tokens(files, folder.string()), restarts, path.string())};
  const std::string named = special_token(files, "bos_token");
  const data::SentencePieceModel model = data::parse_sentencepiece_model(found.bytes, path.string());
  const std::string text = named.empty() ? "<s>" : named;
  const bool is_piece =
      std::ranges::find(model.pieces, text, &data::SentencePieceModel::Piece::text) != model.pieces.end();
  if (!is_piece) return found;
  if (!files.config.contains("add_bos_token")) {
    // transformers 4 puts one there, and transformers 5 not always.
    log_warning(
        "{} does not say whether texts begin with {} (add_bos_token in tokenizer_config.json), and the import takes it "
        "that they do not; where the model was trained with it, set data.begin_token = \"{}\", or give terrace "
        "generate "
        "--begin-token",
        folder.string(), text, text);
  }
  if (adds_begin_token(files, false)) found.begin_token = text;
  return found;
}

FolderTokenizer read_json(const fs::path& folder, const SideFiles& files) {
  const fs::path path = folder / json_name;
  FolderTokenizer found{.bytes = read_text(path)};
  const std::vector<data::AddedToken> tokens = side_tokens(files, folder.string());
  if (!tokens.empty()) {
    check_side_tokens(tokens, data::parse_tokenizer_json(found.bytes, path.string()), folder.string());
  }
  const AddedAround around = added_around(found.bytes, path.string());
  if (!around.before.empty() && adds_begin_token(files, true)) {
    found.begin_token = token_text(found.bytes, around.before.front());
  }
  const size_t dropped = std::max<size_t>(around.before.size(), 1) - 1 + around.behind.size();
  if (dropped > 0) {
    found.left_out.push_back(
        fmt::format("tokens that the post_processor of {} puts around a text: {} before, {} behind", json_name,
                    fmt::join(around.before, " "), fmt::join(around.behind, " ")));
  }
  return found;
}

}  // namespace

void check_fits(const data::Tokenizer& tokenizer, int64_t vocabulary, const fs::path& path) {
  if (tokenizer.vocabulary() <= vocabulary) return;
  throw UserError::of("tokenizer {} has {} tokens, but the model has {}: use the tokenizer it was trained with",
                      path.string(), tokenizer.vocabulary(), vocabulary);
}

void add_hf_tokenizer(std::string bytes, const data::Tokenizer& tokenizer, int64_t sequence,
                      checkpoint::HfContents& contents, int64_t begin) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  std::string begin_text;
  if (data::holds_json(bytes)) {
    if (begin >= 0) begin_text = token_text(bytes, begin);
    contents.texts.emplace_back(json_name, with_begin(std::move(bytes), begin, begin_text));
  } else {
    const data::SentencePieceModel model = data::parse_sentencepiece_model(bytes, model_name);
    if (begin >= 0) begin_text = model.pieces.at(static_cast<size_t>(begin)).text;
    try {
      contents.texts.emplace_back(json_name,
                                  with_begin(data::dump_tokenizer_json(model, model_name), begin, begin_text));
    } catch (const UserError& error) {
      log_warning("{}; AutoTokenizer may give other ids", error.what());
      config = settings_of_model_alone(model.add_dummy_prefix);
    }
    contents.texts.emplace_back(model_name, std::move(bytes));
    const auto unknown = std::ranges::find(model.pieces, data::SentencePieceModel::PieceType::unknown,
                                           &data::SentencePieceModel::Piece::type);
    if (unknown != model.pieces.end()) config["unk_token"] = unknown->text;
  }
  config.update({{"model_max_length", sequence},
                 {"clean_up_tokenization_spaces", false},
                 {"add_bos_token", begin >= 0},
                 {"add_eos_token", false}});
  // Without a named token some classes would add "<s>" to the vocabulary.
  if (tokenizer.end_token() >= 0) config["bos_token"] = config["eos_token"] = tokenizer.end_token_name();
  if (begin >= 0) config["bos_token"] = begin_text;
  contents.texts.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
}

std::string forced_class(const std::string& model_type, std::string_view file) {
  // The beginning of Qwen's expression, as JSON writes it.
  constexpr std::string_view words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)";
  if (model_type != "qwen2" || file.find(words) != std::string_view::npos) return "";
  return "AutoTokenizer of transformers 5 opens every tokenizer of a qwen2 model as Qwen2Tokenizer, which splits text "
         "as "
         "Qwen's does and so gives other ids for this one: open it as PreTrainedTokenizerFast.from_pretrained(FOLDER)";
}

FolderTokenizer read_folder_tokenizer(const fs::path& folder) {
  const SideFiles files = read_side_files(folder);
  FolderTokenizer found;
  const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (fs::exists(folder / model_name)) {
    found = read_model(folder, files);
  } else if (fs::exists(folder / json_name)) {
    found = read_json(folder, files);
  } else if (fs::exists(vocabulary) && fs::exists(merges)) {
    found.bytes = bytes_of_pair(vocabulary, merges, side_tokens(files, folder.string()));
  }
  if (found.bytes.empty()) return found;
  for (const char* key : {"chat_template", "sp_model_kwargs"}) {
    const Json value = files.config.value(key, Json());
    if (!value.empty()) found.left_out.push_back(fmt::format("{} of tokenizer_config.json", key));
  }
  return found;
}

std::string read_hf_tokenizer(const fs::path& folder) { return read_folder_tokenizer(folder).bytes; }

const std::set<std::string>& files_of_tokenizer() {
  static const std::set<std::string> names{"tokenizer.json",   "tokenizer.model",       "vocab.json",
                                           "merges.txt",       "tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json"};
  return names;
}

}  // namespace terrace::exchange
