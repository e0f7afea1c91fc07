// Builds a model from a checkpoint's configuration and reads its weights and tokenizer.
#include "terrace/generate/load.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/families.h"
#include "terrace/models/text_of_family.h"
#include "terrace/nn/precision.h"

namespace terrace::generate {
namespace {

std::unique_ptr<const data::Tokenizer> open_tokenizer(const std::filesystem::path& asked,
                                                      const checkpoint::Reader& reader, int64_t known) {
  const std::filesystem::path path = asked.empty() ? reader.attached("tokenizer") : asked;
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

// Throws UserError if so many ranks cannot divide the model.
void check_cut(config::Config config, int64_t ranks) {
  config.layout = {};
  config.layout.tensor = ranks;
  std::vector<std::string> problems;
  for (const config::Rule& rule : config.family->settings.rules) {
    if (std::ranges::find(rule.keys, "layout.tensor") == rule.keys.end()) continue;
    if (std::string problem = rule.problem(config); !problem.empty()) problems.push_back(std::move(problem));
  }
  if (problems.empty()) return;
  throw UserError::of("{} ranks cannot divide the model:\n{}", ranks, fmt::join(problems, "\n"));
}

// This rank's part of every cut weight, without values.
std::unique_ptr<parallel::TensorParallel> cut(models::Model& model, comm::World& world, at::Device device) {
  const mesh::Mesh mesh(world.size(), {{"tensor", world.size()}}, {.ranks_per_node = world.ranks_per_node()});
  auto tensor = std::make_unique<parallel::TensorParallel>(model, world, mesh, /*sequence_parallel=*/false);
  for (nn::Parameter* parameter : model.parameters()) {
    parameter->value = at::empty(parameter->value.sizes(), parameter->value.options().device(device));
  }
  for (nn::Buffer* buffer : model.buffers()) {
    buffer->value = at::empty(buffer->value.sizes(), buffer->value.options().device(device));
  }
  return tensor;
}

}  // namespace

Loaded open(const std::filesystem::path& path, const LoadOptions& options) {
  const int64_t rank = options.world ? options.world->rank() : 0, ranks = options.world ? options.world->size() : 1;
  auto reader = std::make_unique<const checkpoint::Reader>(checkpoint::resolve(path), rank, ranks);
  const config::Config config = reader->config(models::families());
  const models::TextLimits limits = models::text_of_family(config).limits(config);
  if (ranks > 1) check_cut(config, ranks);
  const nn::Build build{.device = options.device,
                        .type = nn::scalar_type(options.precision),
                        .kernels = {.products = ops::ProductsByClass::all(ops::Products::decoding)},
                        .allocate = ranks == 1};
  std::unique_ptr<models::Model> model = models::build_model(config, build);
  auto tokenizer = open_tokenizer(options.tokenizer, *reader, limits.vocabulary);
  Loaded loaded{.checkpoint = reader->path(),
                .step = reader->step(),
                .config = config,
                .model = std::move(model),
                .tokenizer = std::move(tokenizer)};
  loaded.reader = std::move(reader);
  return loaded;
}

void read_weights(Loaded& loaded, const LoadOptions& options) {
  if (options.world && options.world->size() > 1) loaded.tensor = cut(*loaded.model, *options.world, options.device);
  checkpoint::Collection weights{"weights", {}};
  for (const nn::Parameter* parameter : loaded.model->parameters()) {
    weights.tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  loaded.reader->read(weights);
  checkpoint::Collection buffers{checkpoint::buffers_collection, {}};
  for (const nn::Buffer* buffer : loaded.model->buffers()) {
    buffers.tensors.push_back({buffer->name, buffer->value, ParamMark::replicated(buffer->value.sizes().vec())});
  }
  loaded.reader->read(buffers);
}

Loaded load(const std::filesystem::path& path, const LoadOptions& options) {
  Loaded loaded = open(path, options);
  read_weights(loaded, options);
  return loaded;
}

}  // namespace terrace::generate
