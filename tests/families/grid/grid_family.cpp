// Adds model and data to the planned family.
#include "tests/families/grid/grid_family.h"

#include "terrace/base/files/file.h"
#include "terrace/base/random.h"
#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"
#include "tests/families/grid/grid_data.h"
#include "tests/families/grid/grid_model.h"
#include "tests/families/grid/grid_preparation.h"

namespace terrace::grid {
namespace {

using config::Config;

class ModelOfGrids : public models::ModelOfFamily {
 public:
  std::unique_ptr<models::Model> build(const Config& config, const nn::Build& build) const override {
    return std::make_unique<GridModel>(model_of(config), build);
  }
};

class DataOfGrids : public data::DataOfFamily {
 public:
  std::unique_ptr<data::Source> open(const Config& config) const override {
    return std::make_unique<GridSource>(model_of(config), data_of(config), config.train.seed);
  }
  std::vector<std::string> problems_with_files(const Config& config) const override {
    return problems_with_grid_files(model_of(config), data_of(config));
  }
  std::vector<std::pair<std::string, std::string>> file_facts(const Config& config) const override {
    const std::string path = data_of(config).fields + ".fields";
    return {{path, checksum(MappedFile(path).bytes())}};
  }
  bool evaluates_other_data() const override { return true; }
  void hold_out(Config& config, const std::vector<std::string>& datasets,
                const AttachedPaths& attached) const override {
    DataConfig& data = data_of(config);
    if (datasets.size() != 1) throw UserError::of("{} datasets; models of grids are evaluated on one", datasets.size());
    data = {.fields = datasets.front(), .statistics = {}, .leads = data.leads, .held_out = 1};
    take_attached(config, attached);
  }
  void take_attached(Config& config, const AttachedPaths& attached) const override {
    const auto found = attached.find("statistics");
    if (found != attached.end()) data_of(config).statistics = found->second;
  }
  const data::Preparation* preparation() const override {
    static const GridPreparation preparation;
    return &preparation;
  }
  data::MicroBatch random_batch(const Config& config, std::span<const int64_t> samples) const override {
    const int64_t count = std::ssize(samples);
    const ModelConfig& model = model_of(config);
    const PhiloxKey key = stream_key(config.train.seed, "verify grids");
    const auto variables = static_cast<int64_t>(model.variables.size());
    const auto numbers = [&](int64_t columns, uint64_t stream) {
      std::vector<float> values;
      for (const int64_t sample : samples) {
        for (int64_t i = 0; i < model.places() * columns; ++i) {
          const PhiloxBlock draw = philox_at(key, static_cast<uint64_t>(sample), static_cast<uint64_t>(i) * 2 + stream);
          values.push_back(static_cast<float>(draw[0] % 64) / 32 - 1);
        }
      }
      return data::HostTensor::of(std::span<const float>(values), {count, model.places(), columns});
    };
    const std::vector<float> weights = place_weights(model);
    double weight = 0, of_variables = 0;
    for (const float one : weights) weight += one;
    for (const double one : variable_weights(model)) of_variables += one;
    weight *= static_cast<double>(count);
    data::MicroBatch batch{.counts = {weight * of_variables, weight, weight, static_cast<double>(count)}};
    batch.samples.assign(samples.begin(), samples.end());
    batch.tensors["fields"] = numbers(variables + 1, 0);
    batch.tensors["targets"] = numbers(variables, 1);
    batch.tensors["weights"] = data::HostTensor::of(std::span<const float>(weights), {model.places()});
    return batch;
  }
};

}  // namespace

const config::Family& family() {
  static const ModelOfGrids model;
  static const DataOfGrids data;
  static const config::Family family = [] {
    config::Family all = planned_family();
    all.model = &model;
    all.data = &data;
    return all;
  }();
  return family;
}

}  // namespace terrace::grid
