// Builds a model from a checkpoint's configuration and reads its weights and tokenizer.
#include "terrace/generate/load.h"

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/models/family.h"
#include "terrace/nn/precision.h"

namespace terrace::generate {
namespace {

std::unique_ptr<const data::Tokenizer> open_tokenizer(const std::filesystem::path& asked,
                                                      const checkpoint::Reader& reader, int64_t known) {
  const std::filesystem::path path = asked.empty() ? reader.tokenizer() : asked;
  if (path.empty()) {
    throw UserError::of("checkpoint {} has no tokenizer (data.tokenizer was not set): name one with --tokenizer",
                        reader.path().string());
  }
  auto tokenizer = data::Tokenizer::open(path);
  if (tokenizer->vocabulary() > known) {
    throw UserError::of("tokenizer {} has {} tokens, but the model of {} has {}: use the tokenizer it was trained with",
                        path.string(), tokenizer->vocabulary(), reader.path().string(), known);
  }
  return tokenizer;
}

}  // namespace

Loaded load(const std::filesystem::path& path, const LoadOptions& options) {
  const checkpoint::Reader reader(checkpoint::resolve(path));
  const config::Config config = reader.config(models::families());
  const nn::Build build{.device = options.device,
                        .type = nn::scalar_type(options.precision),
                        .kernels = {.products = ops::ProductsByClass::all(ops::Products::decoding)}};
  std::unique_ptr<models::Model> model = models::build_model(config, build);
  auto tokenizer = open_tokenizer(options.tokenizer, reader, models::generator_of(*model).vocabulary());
  checkpoint::Group weights{"weights", {}};
  for (const nn::Parameter* parameter : model->parameters()) {
    weights.tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  reader.read(weights);
  return {reader.path(), reader.step(), config, std::move(model), std::move(tokenizer)};
}

}  // namespace terrace::generate
