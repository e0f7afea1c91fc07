// Every problem with the surroundings of a run in one message.
#include "terrace/train/check_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/data/token_corpus.h"
#include "terrace/data/tokenizer.h"
#include "terrace/mesh/shards.h"
#include "terrace/models/model.h"
#include "terrace/nn/precision.h"
#include "terrace/observe/memory.h"
#include "terrace/parallel/stage.h"
#include "terrace/schedule/pipeline.h"
#include "terrace/train/rank_share.h"

namespace terrace::train {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

void check_corpora(const char* key, const std::vector<std::string>& prefixes, Problems& problems) {
  for (const std::string& prefix : prefixes) {
    for (const fs::path& path : data::corpus_files(prefix)) {
      if (fs::exists(path)) continue;
      problems.push_back(
          fmt::format("{} = \"{}\": {} does not exist; make it with: terrace data prepare INPUT --output {}", key,
                      prefix, path.string(), prefix));
    }
  }
}

void check_tokenizer(const config::Config& config, Problems& problems) {
  const std::string& path = config.data.tokenizer;
  if (path.empty()) return;
  if (!fs::exists(path)) {
    problems.push_back(
        fmt::format("data.tokenizer = \"{}\" does not exist; give the model that `terrace data prepare` "
                    "was given or trained, or leave the key out",
                    path));
    return;
  }
  try {
    const int64_t tokens = data::Tokenizer::open(path)->vocabulary();
    if (tokens <= config.model.vocabulary) return;
    problems.push_back(fmt::format("data.tokenizer = \"{}\" has {} tokens, model.vocabulary = {} is less; set it to {}",
                                   path, tokens, config.model.vocabulary, tokens));
  } catch (const UserError& error) {
    problems.push_back(fmt::format("data.tokenizer: {}", error.what()));
  }
}

void check_initial_weights(const std::string& path, Problems& problems) {
  if (path.empty()) return;
  try {
    checkpoint::resolve(path);
  } catch (const UserError& error) {
    problems.push_back(fmt::format("train.initial_weights = \"{}\": {}", path, error.what()));
  }
}

// The nearest folder above that exists must let the folder be made in it.
void check_folder(const char* key, const std::string& folder, Problems& problems) {
  fs::path existing = fs::absolute(folder);
  while (!fs::exists(existing)) existing = existing.parent_path();
  if (fs::is_directory(existing) && ::access(existing.c_str(), W_OK | X_OK) == 0) return;
  problems.push_back(
      fmt::format("{} = \"{}\": {} is no folder that can be written to; name another", key, folder, existing.string()));
}

// Of a rank on each pipeline stage, before anything is cut over data-parallel ranks.
std::vector<int64_t> elements_by_stage(models::Model& model, const config::LayoutConfig& layout) {
  const schedule::Placement placement = schedule::placement(schedule::pipeline_of(layout, 1));
  const auto parts = parallel::split_units(model, layout.pipeline * layout.chunks, layout.stage_layers);
  std::vector<int64_t> elements(static_cast<size_t>(layout.pipeline));
  for (int64_t stage = 0; stage < layout.pipeline; ++stage) {
    for (const int64_t unit : parallel::held_units(model, placement, parts, stage)) {
      for (const nn::Parameter* parameter : model.unit_parameters(unit)) {
        const int64_t ranks = parameter->mark.kind == ParamMark::Kind::sharded ? layout.tensor : 1;
        elements[static_cast<size_t>(stage)] += parameter->value.numel() / ranks;
      }
    }
  }
  return elements;
}

// Of all ranks on the machine with the most; `here` neighbouring ranks are on one.
int64_t most_elements_on_a_machine(models::Model& model, const config::LayoutConfig& layout, const mesh::Mesh& mesh,
                                   int64_t here) {
  const std::vector<int64_t> by_stage = elements_by_stage(model, layout);
  int64_t most = 0;
  for (int64_t first = 0; first < mesh.size(); first += here) {
    int64_t elements = 0;
    for (int64_t rank = first; rank < std::min(first + here, mesh.size()); ++rank) {
      elements += by_stage[static_cast<size_t>(mesh.coordinate(rank, "pipeline"))];
    }
    most = std::max(most, elements);
  }
  return most;
}

}  // namespace

void check_files(const config::Config& config) {
  Problems problems;
  check_corpora("data.train", config.data.train, problems);
  check_corpora("data.validation", config.data.validation, problems);
  check_tokenizer(config, problems);
  check_initial_weights(config.train.initial_weights, problems);
  check_folder("checkpoint.folder", config.checkpoint.folder, problems);
  if (!config.checkpoint.staging.empty()) check_folder("checkpoint.staging", config.checkpoint.staging, problems);
  if (problems.empty()) return;
  throw UserError::of("{} problem{} with what the configuration names:\n  {}", problems.size(),
                      problems.size() == 1 ? "" : "s", fmt::join(problems, "\n  "));
}

void check_ranks(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  micro_batch_of(config.train, mesh.size("data"));
  mesh::shard_sizes(config.layout, mesh);
}

void check_memory(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, mesh);
  const auto bytes_of = [](config::Precision precision) {
    return static_cast<int64_t>(c10::elementSize(nn::scalar_type(precision)));
  };
  const int64_t masters = config.train.precision != config::Precision::fp32 ? 4 : 0;
  // Masters and two moments, copied while training goes on, each by one of the ranks that have it.
  const bool copied = config.checkpoint.background && config.checkpoint.every > 0;
  const double each = static_cast<double>(bytes_of(config.train.precision)) / static_cast<double>(sizes.weights) +
                      static_cast<double>(bytes_of(config.train.gradient_type)) / static_cast<double>(sizes.gradients) +
                      static_cast<double>(masters + 8) / static_cast<double>(sizes.optimizer) +
                      (copied ? 12.0 / static_cast<double>(sizes.ranks) : 0.0);
  const auto model = models::build_model(config.model, {at::kMeta, nn::scalar_type(config.train.precision)});
  const auto elements = static_cast<double>(most_elements_on_a_machine(*model, config.layout, mesh, here));
  const double needed = elements * each, available = static_cast<double>(observe::available_bytes());
  if (available == 0 || needed <= available) return;
  throw UserError(
      fmt::format(
          "a model of {} parameters needs {} for weights, gradients and optimizer states{} ({:.4g} "
          "bytes each{}), and {} of memory are left; use a smaller model.width or model.layers, {}{}or a machine "
          "with more memory",
          format_count(nn::whole_elements(model->parameters())), format_bytes(needed),
          copied ? " and the copy that is written beside training" : "", each,
          here > 1 ? fmt::format(" on {} ranks here", here) : "", format_bytes(available),
          copied ? "checkpoint.background = false, which takes 12 bytes each less, " : "",
          sizes.weights < sizes.ranks ? "layout.sharding = \"zero3\", " : ""),
      ExitCode::infeasible);
}

}  // namespace terrace::train
