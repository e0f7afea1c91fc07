// Defines the family of pairs: its keys, rules, model, data, and the sizes that verify trains.
#include "tests/families/pair/pair_family.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <filesystem>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/random.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"
#include "terrace/schedule/description.h"
#include "tests/families/pair/config.h"
#include "tests/families/pair/model.h"
#include "tests/families/pair/source.h"

namespace terrace::pair {
namespace {

using config::Config;
using config::OnResume;

std::vector<config::Key> keys() {
  using M = ModelConfig;
  using D = DataConfig;
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("layers", &M::layers, config::Whole{1, 100}, OnResume::fixed, "2", "Pairs of linear layers.");
  model.optional("width", &M::width, config::Whole{1, 1000}, OnResume::fixed, "Of the hidden states.");
  model.optional("sample_weight", &M::sample_weight, config::Real{}, OnResume::may_change, "Of the second loss.");
  model.optional("fp32_narrow", &M::fp32_narrow, config::Flag{}, OnResume::fixed, "Whether the narrow branch is fp32.");
  model.optional("buffers", &M::buffers, config::Flag{}, OnResume::fixed, "Whether the model has buffers.");
  model.optional("initial", &M::initial, config::Word{{"normal", "uniform", "truncated", "table"}}, OnResume::fixed,
                 "The distribution of the initial weights.");
  const config::SectionKeys data{
      "data", [](auto& config) -> decltype(auto) { return (config.data.template get<DataConfig>()); }, list};
  data.required("train", &D::train, config::Text{}, OnResume::names_fixed, "\"samples.txt\"", "One line a sample.");
  data.optional("held_out", &D::held_out, config::share, OnResume::fixed, "Share of the samples.");
  data.optional("average_items", &D::average_items, config::Real{}, OnResume::may_change, "Items of a sample.");
  data.optional("largest_items", &D::largest_items, config::Whole{0, 1000}, OnResume::may_change,
                "The most items of a sample.");
  return list;
}

std::string tensor_is_one(const Config& c) {
  if (c.layout.tensor == 1) return "";
  return fmt::format("layout.tensor = {} and the layers of model.family = \"pair\" are not cut; use 1",
                     c.layout.tensor);
}

std::string narrow_fits(const Config& c) {
  if (model_of(c).width >= 3) return "";
  return fmt::format("model.width = {} is less than the narrow branch; use at least 3", model_of(c).width);
}

void shrink(Config& config) {
  auto& model = config.model.get<ModelConfig>();
  model.width = std::min<int64_t>(model.width, 16);
  model.layers = std::min(model.layers, std::max<int64_t>(2, config.layout.pipeline * config.layout.chunks - 1));
}

class PairDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const Config& config, const schedule::UnitTableOptions& options) const override {
    return pair::unit_table(model_of(config), options);
  }
  schedule::SampleSizes sample_sizes(const Config& config) const override {
    const DataConfig& data = data_of(config);
    return {.average = {{"items", data.average_items}}, .largest = {{"items", data.largest_items}}};
  }
};

class PairFigures : public observe::Figures {
 public:
  std::string loss_unit(const Config&) const override { return "per item"; }
  std::vector<observe::Figure> list(const Config&) const override {
    return {{.name = "loss_item", .value = observe::mean_of(0)},
            {.name = "loss_sample", .value = observe::mean_of(1)},
            {.name = "loss_absolute", .value = observe::mean_of(2)},
            {.name = "largest_error", .unit = "m", .value = observe::number_of(3)},
            {.name = "weighted_rms", .unit = "m", .in_steps = false, .value = observe::root_mean_of(4, 0)},
            {.name = "weighted_error", .unit = "m", .in_steps = false, .value = observe::mean_of(4, 1)},
            {.name = "sharpness",
             .better = observe::Better::higher,
             .in_steps = false,
             .value = observe::quotient_of(2, 0)}};
  }
};

// Element i in a dimension is element i modulo the tensor's size.
at::Tensor repeated(at::Tensor tensor, const std::vector<int64_t>& shape) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const at::Tensor numbers = at::arange(shape[static_cast<size_t>(dim)]).remainder(tensor.size(dim));
    tensor = tensor.index_select(dim, numbers);
  }
  return tensor;
}

class ModelOfPairs : public models::ModelOfFamily {
 public:
  std::unique_ptr<models::Model> build(const Config& config, const nn::Build& build) const override {
    return std::make_unique<PairModel>(model_of(config), build);
  }

  // Pairs may get wider and have another number of layers. A wider tensor repeats the stored one, a layer that is not
  // stored begins as in a new model, and a layer that is not wanted is dropped.
  models::WeightMap map_weights(const models::WeightMapRequest& request) const override {
    models::WeightMap map;
    if (model_of(request.config).width < model_of(request.stored_config()).width) return map;
    for (const auto& [name, shape] : request.wanted) {
      const auto stored = request.stored.find(name);
      if (stored == request.stored.end()) {
        map.initial.insert(name);
      } else if (stored->second != shape) {
        map.computed[name] = {.from = {name}, .compute = [shape = shape](const std::vector<at::Tensor>& from) {
                                return repeated(from.front(), shape);
                              }};
      }
    }
    for (const auto& [name, shape] : request.stored) {
      if (!request.wanted.contains(name)) map.dropped.insert(name);
    }
    return map;
  }
};

class PairData : public data::DataOfFamily {
 public:
  std::unique_ptr<data::Source> open(const Config& config) const override {
    return std::make_unique<PairSource>(data_of(config), config.train.seed, config.train.micro_batch_sizes);
  }
  std::vector<std::string> problems_with_files(const Config& config) const override {
    const std::string& path = data_of(config).train;
    if (std::filesystem::exists(path)) return {};
    return {fmt::format("data.train = \"{}\" does not exist", path)};
  }
  std::vector<std::pair<std::string, std::string>> file_facts(const Config& config) const override {
    const std::string& path = data_of(config).train;
    return {{path, checksum(MappedFile(path).bytes())}};
  }
  // The first three samples have no items, the others at most three.
  data::MicroBatch random_batch(const Config& config, std::span<const int64_t> samples) const override {
    const PhiloxKey key = stream_key(config.train.seed, "verify pairs");
    std::vector<std::vector<float>> values;
    for (const int64_t number : samples) {
      std::vector<float>& sample = values.emplace_back();
      for (int64_t item = 0; item < (number < 3 ? 0 : number % 4); ++item) {
        const PhiloxBlock draw = philox_at(key, static_cast<uint64_t>(number), static_cast<uint64_t>(item));
        for (int64_t i = 0; i < numbers_per_item; ++i) {
          sample.push_back(static_cast<float>(draw[static_cast<size_t>(i % 4)] % (17 + i)) / 8 - 1);
        }
      }
    }
    return micro_batch_of({samples.begin(), samples.end()}, values, {"features", "targets", "owner"});
  }
};

}  // namespace

const config::Family& family() {
  static const PairDescription description;
  static const PairFigures figures;
  static const ModelOfPairs model;
  static const PairData data;
  static const config::Family family{
      .name = "pair",
      .about = "Pairs of linear layers, for the tests.",
      .items = "items",
      .settings = {.model = config::FamilySettings::of(ModelConfig{}),
                   .data = config::FamilySettings::of(DataConfig{}),
                   .keys = keys(),
                   .rules = {{{"layout.tensor"}, tensor_is_one}, {{"model.width"}, narrow_fits}},
                   .layers = [](const Config& config) { return model_of(config).layers; },
                   .shrink = shrink,
                   .equal_shares = false,
                   .sizes = {"items"}},
      .description = &description,
      .figures = &figures,
      .model = &model,
      .data = &data};
  return family;
}

}  // namespace terrace::pair
