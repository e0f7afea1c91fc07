// Checks the family's answer, and cuts computed tensors by mark and range.
#include "terrace/train/initial_weights.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/data_of_family.h"
#include "terrace/mesh/param_mark.h"
#include "terrace/models/families.h"
#include "terrace/train/check_tensors.h"

namespace terrace::train {
namespace {

using checkpoint::Collection;
using checkpoint::NamedTensor;

constexpr const char* read_collections[] = {"weights", checkpoint::buffers_collection};

// A programming error of the family.
void check_named(const std::string& name, const models::Shapes& known, const char* where) {
  TERRACE_CHECK(known.contains(name), "the family's map names '{}', which is not in {}", name, where);
}

void check_map(const models::WeightMap& map, const models::Shapes& stored, const models::Shapes& wanted) {
  for (const auto& [name, computed] : map.computed) {
    check_named(name, wanted, "this model");
    TERRACE_CHECK(!map.initial.contains(name), "the family's map has '{}' twice", name);
    for (const std::string& from : computed.from) check_named(from, stored, "the checkpoint");
  }
  for (const std::string& name : map.initial) check_named(name, wanted, "this model");
  for (const std::string& name : map.dropped) check_named(name, stored, "the checkpoint");
}

// "a, b, c and 2 more"
template <typename Names>
std::string listed(const Names& names) {
  constexpr size_t most = 8;
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t more = shown.size() > most ? shown.size() - most : 0;
  shown.resize(shown.size() - more);
  return fmt::format("{}{}", fmt::join(shown, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// Copies the elements of a whole tensor that the rank's tensor holds.
void copy_part(const at::Tensor& whole, const NamedTensor& to) {
  const at::Tensor from = whole.flatten(), into = to.tensor.view({-1});
  const int64_t begin = to.range ? to.range->begin : 0;
  for (const MappedRange& run : mapped_ranges(to.mark, begin, begin + into.numel())) {
    into.narrow(0, run.local - begin, run.size).copy_(from.narrow(0, run.global, run.size));
  }
}

}  // namespace

InitialWeights::InitialWeights(const config::Config& config, const checkpoint::Reader& checkpoint) {
  models::Shapes stored, wanted;
  std::vector<Collection> collections;
  for (const char* name : read_collections) {
    stored_[name] = checkpoint.shapes(name);
    stored.insert(stored_[name].begin(), stored_[name].end());
    collections.push_back(whole_collection(config, name));
    for (const NamedTensor& named : collections.back().tensors) wanted.emplace(named.name, named.mark.global_shape);
  }
  const std::function<config::Config()> stored_config = [&] { return checkpoint.config({config.family}); };
  map_ = config.family->model->map_weights({.stored = stored,
                                            .wanted = wanted,
                                            .stored_config = stored_config,
                                            .config = config,
                                            .attached = checkpoint.attached()});
  check_map(map_, stored, wanted);
  left_out_ = map_.dropped;
  for (const auto& [name, computed] : map_.computed) left_out_.insert(computed.from.begin(), computed.from.end());
  for (Collection& collection : collections) {
    std::erase_if(collection.tensors, [&](const NamedTensor& named) {
      return map_.computed.contains(named.name) || map_.initial.contains(named.name);
    });
    checkpoint.check_fits(collection, left_out_);
  }
}

std::string InitialWeights::text() const {
  std::vector<std::string> parts;
  const auto computed = std::views::keys(map_.computed);
  if (!computed.empty()) {
    parts.push_back(fmt::format("{} computed: {}", counted(map_.computed.size(), "tensor"), listed(computed)));
  }
  if (!map_.initial.empty()) {
    parts.push_back(fmt::format("{} at {} initial values: {}", counted(map_.initial.size(), "tensor"),
                                map_.initial.size() == 1 ? "its" : "their", listed(map_.initial)));
  }
  if (!map_.dropped.empty()) {
    parts.push_back(
        fmt::format("{} of the checkpoint dropped: {}", counted(map_.dropped.size(), "tensor"), listed(map_.dropped)));
  }
  parts.insert(parts.end(), map_.notes.begin(), map_.notes.end());
  return fmt::format("{}", fmt::join(parts, "; "));
}

void InitialWeights::read(const checkpoint::Reader& checkpoint, const std::vector<Collection>& collections) const {
  std::map<std::string, std::vector<NamedTensor>> computed;  // with elements on this rank
  std::map<std::string, at::Tensor> sources;
  std::map<std::string, Collection> taken;
  for (const char* name : read_collections) taken[name].name = name;
  for (const Collection& collection : collections) {
    for (const NamedTensor& named : collection.tensors) {
      if (map_.initial.contains(named.name)) continue;
      const auto found = map_.computed.find(named.name);
      if (found == map_.computed.end()) {
        taken.at(collection.name).tensors.push_back(named);
      } else if (named.tensor.numel() > 0) {
        computed[named.name].push_back(named);
        for (const std::string& from : found->second.from) sources[from] = at::Tensor();
      }
    }
  }
  // Each collection is read in one call, since a call compares each file with its checksum.
  for (auto& [collection, own] : taken) {
    for (auto& [name, whole] : sources) {
      const models::Shapes& stored = stored_.at(collection);
      const auto found = stored.find(name);
      if (found == stored.end()) continue;
      whole = at::empty(found->second);
      own.tensors.push_back({.name = name, .tensor = whole, .mark = ParamMark::replicated(found->second)});
    }
    checkpoint.read(own, left_out_);
  }
  for (const auto& [name, parts] : computed) {
    const models::ComputedTensor& how = map_.computed.at(name);
    std::vector<at::Tensor> from;
    for (const std::string& source : how.from) from.push_back(sources.at(source));
    const at::Tensor whole = how.compute(from);
    TERRACE_CHECK(whole.sizes().vec() == parts.front().mark.global_shape,
                  "the family computes '{}' of shape [{}], and this model has [{}]", name,
                  fmt::join(whole.sizes(), ", "), fmt::join(parts.front().mark.global_shape, ", "));
    for (const NamedTensor& part : parts) copy_part(whole, part);
  }
}

config::Config with_initial_statistics(const config::Config& config, const checkpoint::Reader* resumed, bool says) {
  if (config.train.initial_weights.empty()) return config;
  const AttachedPaths attached = resumed != nullptr
                                     ? resumed->attached()
                                     : checkpoint::Reader(checkpoint::resolve(config.train.initial_weights)).attached();
  config::Config with = config;
  const std::string sentence = data::data_of_family(config).keep_statistics(with, attached);
  if (says && resumed == nullptr && !sentence.empty()) log_info("{}", sentence);
  return with;
}

}  // namespace terrace::train
