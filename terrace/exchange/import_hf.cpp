// Makes a checkpoint, and a configuration that continues training from it, of a folder of transformers.
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/exchange/hf.h"
#include "terrace/exchange/hf_tokenizer.h"
#include "terrace/exchange/weights.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/families.h"
#include "terrace/models/text_of_family.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;
using models::HfTensor;

// The name of the tensor in this folder: models saved without a head omit the leading "transformer." or "model.".
std::string name_in(const checkpoint::HfFolder& folder, const std::string& name) {
  if (folder.has(name)) return name;
  const std::string bare = name.substr(name.find('.') + 1);
  return folder.has(bare) && !name.starts_with("lm_head.") ? bare : "";
}

void check_names(const checkpoint::HfFolder& folder, const std::vector<HfTensor>& layout,
                 const config::Config& config) {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const HfTensor& theirs : layout) {
    const std::string name = name_in(folder, theirs.name);
    known.insert(name);
    if (name.empty()) {
      problems.push_back(fmt::format("'{}' is missing", theirs.name));
      continue;
    }
    const at::Tensor found = folder.tensor(name);
    if (found.sizes() != at::IntArrayRef(theirs.shape)) {
      problems.push_back(fmt::format("'{}' has shape [{}], but config.json says [{}]", name,
                                     fmt::join(found.sizes(), ", "), fmt::join(theirs.shape, ", ")));
    } else if (!found.is_floating_point()) {
      problems.push_back(
          fmt::format("'{}' holds {}, not floating-point numbers", name, c10::toString(found.scalar_type())));
    }
  }
  for (const std::string& name : folder.names()) {
    if (known.contains(name) || config.family->exchange->is_hf_buffer(config, name)) continue;
    problems.push_back(fmt::format("'{}' is not a tensor of this model", name));
  }
  if (problems.empty()) return;
  throw UserError::of("the weights in {} are not those of its config.json:\n  {}", folder.path().string(),
                      fmt::join(problems, "\n  "));
}

checkpoint::Group read_weights(const checkpoint::HfFolder& folder, const std::vector<HfTensor>& layout,
                               const config::Config& config) {
  check_names(folder, layout, config);
  const at::NoGradGuard no_grad;
  checkpoint::Group weights = make_weights(config);
  std::map<std::string, at::Tensor> ours;
  for (const checkpoint::NamedTensor& named : weights.tensors) ours[named.name] = named.tensor;
  for (const HfTensor& theirs : layout) {
    const at::Tensor place = theirs.view(ours.at(theirs.parameter));
    place.copy_(folder.tensor(name_in(folder, theirs.name)).view(place.sizes()));
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
  family.exchange->read_hf_config(folder.config(), name, config);
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

void check_end_token(const Json& json, const data::Tokenizer& tokenizer) {
  if (!json.contains("eos_token_id") || json["eos_token_id"].is_null()) return;
  const Json& given = json["eos_token_id"];
  const Json end = tokenizer.end_token();
  const bool named = given.is_array() ? std::find(given.begin(), given.end(), end) != given.end() : given == end;
  if (!named) {
    log_warning("config.json ends documents with token {}, but terrace takes token {} from the tokenizer's names",
                given.dump(), tokenizer.end_token());
  }
}

// Writes the tokenizer's file into the output and returns its path; empty if there is none.
fs::path place_tokenizer(const ImportOptions& options, const checkpoint::HfFolder& folder,
                         const config::Config& config) {
  if (options.without_tokenizer || config.family->text == nullptr) return {};
  const std::string bytes = options.tokenizer.empty() ? read_hf_tokenizer(folder.path()) : read_text(options.tokenizer);
  const fs::path source = options.tokenizer.empty() ? folder.path() : options.tokenizer;
  if (bytes.empty()) {
    throw UserError::of(
        "{} has no tokenizer (tokenizer.json, tokenizer.model, or vocab.json with merges.txt); name "
        "one with --tokenizer, or give --without-tokenizer",
        source.string());
  }
  const char* name = data::tokenizer_file_name(bytes);
  const auto tokenizer =
      data::Tokenizer::from_bytes(bytes, options.tokenizer.empty() ? (source / name).string() : source.string());
  check_fits(*tokenizer, config.family->text->limits(config).vocabulary, source);
  check_end_token(folder.config(), *tokenizer);
  fs::path path = options.output / name;
  write_text_atomically(path, bytes);
  return path;
}

Imported write_output(const ImportOptions& options, const checkpoint::HfFolder& folder, config::Config config) {
  const config::Family& family = *config.family;
  Imported result{.checkpoint = {}, .config = options.output / "train.toml", .tokenizer = {}, .model = config.model};
  result.tokenizer = place_tokenizer(options, folder, config);
  family.data->take_attached(config, {{"tokenizer", result.tokenizer.string()}});
  const std::vector<HfTensor> layout = family.exchange->hf_tensors(config);
  checkpoint::State state{.step = 0, .groups = {read_weights(folder, layout, config)}, .trainer = {}, .config = config};
  if (!result.tokenizer.empty()) {
    state.attached.push_back(
        {.role = "tokenizer", .path = result.tokenizer.string(), .stored_as = result.tokenizer.filename().string()});
  }
  // Without the rows that pad the vocabulary, as the folder has them and export_hf() counts them.
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
  const config::Config config = starting_config(folder, options.output);
  if (fs::exists(options.output) && !(fs::is_directory(options.output) && fs::is_empty(options.output))) {
    throw UserError::of("{} exists; name another output, or remove it", options.output.string());
  }
  const bool existed = fs::exists(options.output);
  try {
    fs::create_directories(options.output);
    return write_output(options, folder, config);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(options.output, ignored);
    if (existed) fs::create_directory(options.output, ignored);
    throw;
  }
}

}  // namespace terrace::exchange
