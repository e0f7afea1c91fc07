// Makes a checkpoint, and a configuration that continues training from it, of a folder of transformers.
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/exchange/folder_checks.h"
#include "terrace/exchange/hf.h"
#include "terrace/exchange/hf_tokenizer.h"
#include "terrace/exchange/hf_values.h"
#include "terrace/exchange/weights.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/families.h"
#include "terrace/models/text_of_family.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;
using models::HfTensor;

checkpoint::Collection read_weights(const checkpoint::HfFolder& folder, const std::vector<HfTensor>& layout,
                                    const config::Config& config) {
  check_names(folder, layout, config);
  const at::NoGradGuard no_grad;
  checkpoint::Collection weights = make_weights(config);
  std::map<std::string, at::Tensor> ours;
  for (const checkpoint::NamedTensor& named : weights.tensors) ours[named.name] = named.tensor;
  std::vector<std::string> problems;
  for (const HfTensor& theirs : layout) {
    const at::Tensor& parameter = ours.at(theirs.parameter);
    set_values_in(parameter, theirs, folder.tensor(name_in(folder, theirs.name)));
    const std::string problem = problem_with_values(theirs.name, values_in(parameter, theirs));
    if (!problem.empty()) problems.push_back(problem);
  }
  if (!problems.empty()) {
    throw UserError::of(
        "the weights in {} make every loss NaN; take those from before the training that made them broke down:\n  {}",
        folder.path().string(), fmt::join(problems, "\n  "));
  }
  return weights;
}

// The family whose part reads the model_type of a config.json; `name` is for error messages.
const config::Family& family_of(const Json& json, const std::string& name) {
  if (!json.is_object()) throw UserError::of("{} is not a JSON object", name);
  if (!json.contains("model_type")) throw UserError::of("{} has no model_type", name);
  std::vector<std::string> types;
  for (const config::Family* family : models::families()) {
    if (family->exchange == nullptr) continue;
    for (const std::string& type : family->exchange->hf_types()) {
      if (json["model_type"] == type) return *family;
      types.push_back(fmt::format("\"{}\"", type));
    }
  }
  throw UserError::of("{}: model_type = {} is not read; these are: {}", name, json["model_type"].dump(),
                      fmt::join(types, ", "));
}

// The configuration of a run of the model, with values to start from for the settings that the folder does not have.
config::Config starting_config(const checkpoint::HfFolder& folder, const fs::path& output) {
  const std::string name = (folder.path() / "config.json").string();
  const config::Family& family = family_of(folder.config(), name);
  config::Config config = config::config_of(family);
  const std::vector<std::string> unused = family.exchange->read_hf_config(folder.config(), name, config);
  if (!unused.empty()) {
    log_warning("{} has {} that terrace does not know and leaves out: {}", name, unused.size() == 1 ? "a key" : "keys",
                fmt::join(unused, ", "));
  }
  const auto stored = [&](const std::string& tensor) {
    const std::string found = name_in(folder, tensor);
    return found.empty() ? at::Tensor() : folder.tensor(found);
  };
  for (const std::string& change : family.exchange->follow_hf_tensors(stored, config)) {
    log_warning("{}: {}", folder.path().string(), change);
  }
  config.train.global_batch = 8;
  config.train.micro_batch = 1;
  config.train.steps = 1000;
  config.optimizer.learning_rate = 3e-5;
  config.optimizer.warmup_steps = 100;
  config.checkpoint.folder = output.string() + "-trained";
  config.checkpoint.every = 200;
  // The parser derives the keys that are left out and refuses invalid values.
  return config::parse(config::dump(config), "the model's config.json", models::families());
}

void check_end_token(const Json& generation, const data::Tokenizer& tokenizer) {
  const std::vector<int64_t> given = data::token_ids(generation, "eos_token_id");
  if (given.empty() || std::ranges::find(given, tokenizer.end_token()) != given.end()) return;
  log_warning(
      "the model ends texts with token {} (eos_token_id), which terrace generate and terrace export keep; terrace data "
      "prepare closes documents with token {} of the tokenizer's names unless --end-token names another",
      fmt::join(given, ", "), tokenizer.end_token());
}

struct PlacedTokenizer {
  fs::path path = {};  // in the output; empty if there is none
  std::string begin_token = {};
};

// Writes the tokenizer's file into the output.
PlacedTokenizer place_tokenizer(const ImportOptions& options, const checkpoint::HfFolder& folder,
                                const config::Config& config, const Json& generation) {
  if (options.without_tokenizer || config.family->text == nullptr) return {};
  const bool own = options.tokenizer.empty();
  const FolderTokenizer found =
      own ? read_folder_tokenizer(folder.path()) : FolderTokenizer{.bytes = read_text(options.tokenizer)};
  const fs::path source = own ? folder.path() : options.tokenizer;
  if (found.bytes.empty()) {
    throw UserError::of(
        "{} has no tokenizer (tokenizer.json, tokenizer.model, or vocab.json with merges.txt); name "
        "one with --tokenizer, or give --without-tokenizer",
        source.string());
  }
  for (const std::string& what : found.left_out) log_warning("{}: the import leaves out {}", source.string(), what);
  const char* name = data::tokenizer_file_name(found.bytes);
  const auto tokenizer = data::Tokenizer::from_bytes(found.bytes, own ? (source / name).string() : source.string());
  check_fits(*tokenizer, config.family->text->limits(config).vocabulary, source);
  check_end_token(generation, *tokenizer);
  PlacedTokenizer placed{.path = options.output / name, .begin_token = found.begin_token};
  write_text_atomically(placed.path, found.bytes);
  return placed;
}

// Writes generation_config.json into the output, with the tokens that config.json alone names, and returns its path;
// empty where the folder says nothing of generation.
fs::path place_generation(const ImportOptions& options, const checkpoint::HfFolder& folder,
                          const config::Config& config) {
  if (config.family->text == nullptr) return {};
  const fs::path given = folder.path() / data::generation_file;
  Json json = fs::exists(given) ? data::read_generation_config(given) : Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const Json& other = folder.config();
    if (!json.contains(key) && other.contains(key) && !other.at(key).is_null()) json[key] = other.at(key);
  }
  if (json.empty()) return {};
  fs::path path = options.output / data::generation_file;
  write_text_atomically(path, json.dump(2) + "\n");
  data::read_generation_config(path);  // also what config.json gave
  return path;
}

Imported write_output(const ImportOptions& options, const checkpoint::HfFolder& folder, config::Config config) {
  const config::Family& family = *config.family;
  Imported result{.checkpoint = {}, .config = options.output / "train.toml", .tokenizer = {}, .model = config.model};
  const fs::path generation = place_generation(options, folder, config);
  const PlacedTokenizer tokenizer =
      place_tokenizer(options, folder, config, generation.empty() ? Json() : data::read_generation_config(generation));
  result.tokenizer = tokenizer.path;
  family.data->take_attached(config,
                             {{"tokenizer", result.tokenizer.string()}, {data::generation_role, generation.string()}});
  if (!tokenizer.begin_token.empty()) {
    family.text->set_begin_token(config, tokenizer.begin_token);
    log_info(
        "the model's texts begin with {} (data.begin_token): terrace generate puts it before prompts, and terrace "
        "data prepare --begin-token {} before documents",
        tokenizer.begin_token, shell_word(tokenizer.begin_token));
  }
  const std::vector<HfTensor> layout = family.exchange->hf_tensors(config);
  checkpoint::State state{
      .step = 0, .collections = {read_weights(folder, layout, config)}, .trainer = {}, .config = config};
  if (!result.tokenizer.empty()) {
    state.attached.push_back(
        {.role = "tokenizer", .path = result.tokenizer.string(), .stored_as = result.tokenizer.filename().string()});
  }
  if (!generation.empty()) {
    state.attached.push_back(
        {.role = data::generation_role, .path = generation.string(), .stored_as = data::generation_file});
  }
  // The number leaves out the rows that pad the vocabulary, as the folder and export_hf() do.
  for (const HfTensor& theirs : layout) {
    result.parameters += c10::multiply_integers(theirs.shape);
  }
  state.trainer = {{"imported_from", folder.path().string()}};
  result.checkpoint = checkpoint::save(options.output, state, {});
  config.train.initial_weights = options.output.string();
  family.exchange->forget_initial_values(config);
  write_text_atomically(result.config,
                        "# Continues training from the imported weights: name corpora made with this tokenizer in "
                        "data.train,\n# and choose the steps, the batch and the learning rate.\n" +
                            config::dump(config));
  return result;
}

}  // namespace

Imported import_hf(const ImportOptions& options) {
  const checkpoint::HfFolder folder(options.folder);
  check_adapters(folder);
  const config::Config config = starting_config(folder, options.output);
  if (fs::exists(options.output) && !(fs::is_directory(options.output) && fs::is_empty(options.output))) {
    throw UserError::of("{} exists; name another output, or remove it", options.output.string());
  }
  const bool existed = fs::exists(options.output);
  try {
    fs::create_directories(options.output);
    Imported imported = write_output(options, folder, config);
    if (const auto unused = unused_files(folder); !unused.empty()) {
      log_warning("the import of {} leaves out these files: {}", folder.path().string(), fmt::join(unused, ", "));
    }
    return imported;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(options.output, ignored);
    if (existed) fs::create_directory(options.output, ignored);
    throw;
  }
}

}  // namespace terrace::exchange
