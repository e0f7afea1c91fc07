// Writes the model of a checkpoint into a folder for transformers.
#include <ATen/ops/zeros.h>

#include <map>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/hf_folder.h"
#include "terrace/config/names.h"
#include "terrace/data/text/tokenizer.h"
#include "terrace/exchange/hf.h"
#include "terrace/exchange/hf_tokenizer.h"
#include "terrace/exchange/weights.h"
#include "terrace/models/families.h"
#include "terrace/models/gpt/hf_layout.h"
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

Tensors their_tensors(const checkpoint::Reader& reader, const models::gpt::ModelConfig& model, at::ScalarType type) {
  const std::vector<models::gpt::HfTensor> layout = models::gpt::hf_tensors(model);
  const checkpoint::Group weights = make_weights(model);
  reader.read(weights);
  std::map<std::string, at::Tensor> ours;
  for (const checkpoint::NamedTensor& named : weights.tensors) ours[named.name] = named.tensor;
  Tensors tensors;
  for (const models::gpt::HfTensor& theirs : layout) {
    const at::Tensor values = theirs.parameter.empty() ? at::zeros(theirs.shape)
                                                       : theirs.view(ours.at(theirs.parameter)).reshape(theirs.shape);
    tensors.emplace_back(theirs.name, values.to(type));
  }
  return tensors;
}

// Without a prompt, generation starts a document after the end token of another one, as in training.
void add_tokens(Json& config, const data::Tokenizer& tokenizer) {
  if (tokenizer.end_token() < 0) return;
  config["bos_token_id"] = tokenizer.end_token();
  config["eos_token_id"] = tokenizer.end_token();
}

}  // namespace

Exported export_hf(const ExportOptions& options) {
  const checkpoint::Reader reader(checkpoint::resolve(options.checkpoint));
  const config::Config trained = reader.config(models::families());
  const models::gpt::ModelConfig& model = models::gpt::model_of(trained);
  Json config = models::gpt::hf_config(model);
  config["torch_dtype"] = type_word(options.precision);
  Json generation = Json::object();
  checkpoint::HfContents contents;
  Exported result{.checkpoint = reader.path(),
                  .architecture = config["architectures"][0].get<std::string>(),
                  .parameters = 0,
                  .tokenizer = ""};

  const std::filesystem::path tokenizer_path =
      options.tokenizer.empty() ? reader.attached("tokenizer") : options.tokenizer;
  if (tokenizer_path.empty()) {
    log_warning("checkpoint {} has no tokenizer, so the model is written without one; --tokenizer adds one",
                reader.path().string());
  } else {
    std::string bytes = read_text(tokenizer_path);
    const auto tokenizer = data::Tokenizer::from_bytes(bytes, tokenizer_path.string());
    check_fits(*tokenizer, model, tokenizer_path);
    add_tokens(config, *tokenizer);
    add_tokens(generation, *tokenizer);
    result.tokenizer = data::tokenizer_file_name(bytes);
    add_hf_tokenizer(std::move(bytes), *tokenizer, model.sequence, contents);
  }
  contents.texts.emplace_back("config.json", config.dump(2) + "\n");
  contents.texts.emplace_back("generation_config.json", generation.dump(2) + "\n");
  contents.tensors = their_tensors(reader, model, nn::scalar_type(options.precision));
  for (const auto& [name, tensor] : contents.tensors) result.parameters += tensor.numel();
  if (!model.bias && result.architecture == "GPT2LMHeadModel") {
    log_warning("GPT-2's layout has biases, but this model has none: they are written as zeros");
  }
  checkpoint::write_hf_folder(options.output, contents);
  return result;
}

}  // namespace terrace::exchange
