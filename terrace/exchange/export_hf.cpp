// Writes the model of a checkpoint into a folder for transformers.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/config/names.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/exchange/hf.h"
#include "terrace/exchange/hf_tokenizer.h"
#include "terrace/exchange/hf_values.h"
#include "terrace/exchange/weights.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/families.h"
#include "terrace/models/text_of_family.h"
#include "terrace/nn/precision.h"

namespace terrace::exchange {
namespace {

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

// The name of a type in transformers.
std::string type_word(config::Precision precision) {
  switch (precision) {
    case config::Precision::bf16:
      return "bfloat16";
    case config::Precision::fp16:
      return "float16";
    default:
      return "float32";
  }
}

Tensors their_tensors(const checkpoint::Reader& reader, const std::vector<models::HfTensor>& layout,
                      const config::Config& config, at::ScalarType type) {
  const checkpoint::Collection weights = make_weights(config);
  reader.read(weights);
  std::map<std::string, at::Tensor> ours;
  for (const checkpoint::NamedTensor& named : weights.tensors) ours[named.name] = named.tensor;
  Tensors tensors;
  for (const models::HfTensor& theirs : layout) {
    const at::Tensor values =
        theirs.parameter.empty() ? at::zeros(theirs.shape) : values_in(ours.at(theirs.parameter), theirs);
    tensors.emplace_back(theirs.name, values.to(type));
  }
  return tensors;
}

// Where the checkpoint names no tokens, generation without a prompt starts a document after the end token of another
// one, as in training.
void add_end_token(const data::Tokenizer& tokenizer, Json& generation) {
  if (tokenizer.end_token() < 0) return;
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (data::token_ids(generation, key).empty()) generation[key] = tokenizer.end_token();
  }
}

// Returns the part of generation_config.json that the checkpoint keeps.
Json kept_generation(const checkpoint::Reader& reader) {
  const std::filesystem::path path = reader.attached(data::generation_role);
  Json generation = path.empty() ? Json::object() : data::read_generation_config(path);
  generation.erase("_from_model_config");  // transformers would make the settings again from config.json
  return generation;
}

// Adds the tokenizer and its special tokens, and returns the name of its file; "" if there is none.
std::string add_tokenizer(const ExportOptions& options, const checkpoint::Reader& reader,
                          const models::TextLimits& limits, const std::string& begin_token, Json& generation,
                          checkpoint::HfContents& contents) {
  const std::filesystem::path path = options.tokenizer.empty() ? reader.attached("tokenizer") : options.tokenizer;
  if (path.empty()) {
    log_warning("checkpoint {} has no tokenizer, so the model is written without one; --tokenizer adds one",
                reader.path().string());
    return "";
  }
  std::string bytes = read_text(path);
  const auto tokenizer = data::Tokenizer::from_bytes(bytes, path.string());
  check_fits(*tokenizer, limits.vocabulary, path);
  int64_t begin = -1;
  if (!begin_token.empty()) {
    begin = tokenizer->token_named("data.begin_token", begin_token);
    generation["bos_token_id"] = begin;
  }
  add_end_token(*tokenizer, generation);
  std::string name = data::tokenizer_file_name(bytes);
  add_hf_tokenizer(std::move(bytes), *tokenizer, limits.longest_sequence, contents, begin);
  return name;
}

}  // namespace

Exported export_hf(const ExportOptions& options) {
  const checkpoint::Reader reader(checkpoint::resolve(options.checkpoint));
  const config::Config trained = reader.config(models::families());
  const models::ExchangeOfFamily& family = models::exchange_of_family(trained);
  Json config = family.hf_config(trained);
  config["torch_dtype"] = type_word(options.precision);
  checkpoint::HfContents contents;
  Exported result{.checkpoint = reader.path(),
                  .architecture = config["architectures"][0].get<std::string>(),
                  .parameters = 0,
                  .tokenizer = ""};

  if (trained.family->text != nullptr) {
    Json generation = kept_generation(reader);
    const models::TextOfFamily& text = *trained.family->text;
    result.tokenizer =
        add_tokenizer(options, reader, text.limits(trained), text.begin_token(trained), generation, contents);
    for (const auto& [name, content] : contents.texts) {
      const std::string forced =
          name == "tokenizer.json" ? forced_class(config["model_type"].get<std::string>(), content) : "";
      if (!forced.empty()) log_warning("{}", forced);
    }
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      if (generation.contains(key)) config[key] = generation.at(key);
    }
    contents.texts.emplace_back("generation_config.json", generation.dump(2) + "\n");
  }
  contents.texts.emplace_back("config.json", config.dump(2) + "\n");
  const std::vector<models::HfTensor> layout = family.hf_tensors(trained);
  contents.tensors = their_tensors(reader, layout, trained, nn::scalar_type(options.precision));
  for (const auto& [name, tensor] : contents.tensors) result.parameters += tensor.numel();
  if (std::ranges::any_of(layout, [](const models::HfTensor& theirs) { return theirs.parameter.empty(); })) {
    log_warning("the layout of {} has biases, but this model has none: they are written as zeros", result.architecture);
  }
  checkpoint::write_hf_folder(options.output, contents);
  return result;
}

}  // namespace terrace::exchange
