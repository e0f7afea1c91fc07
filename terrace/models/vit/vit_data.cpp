// Opens prepared fields for a vision transformer, and makes the random fields that verify trains on.
#include "terrace/models/vit/vit_data.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "terrace/base/random.h"
#include "terrace/data/fields/fields_source.h"
#include "terrace/data/fields/preparation/prepare_fields.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/models/vit/settings/vit_figures.h"

namespace terrace::models::vit {
namespace {

constexpr size_t num_terms = static_cast<size_t>(Term::persistence) + 1;

// Cosines of the latitudes over their mean, for latitudes that divide the meridian evenly.
std::vector<float> latitude_weights(int64_t latitudes) {
  std::vector<double> cosines;
  for (int64_t i = 0; i < latitudes; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(latitudes) - 0.5;
    cosines.push_back(std::cos(share * std::numbers::pi));
  }
  const double mean = std::accumulate(cosines.begin(), cosines.end(), 0.0) / static_cast<double>(latitudes);
  std::vector<float> weights;
  for (const double cosine : cosines) weights.push_back(static_cast<float>(cosine / mean));
  return weights;
}

}  // namespace

// Each term counts samples.
data::FieldsRequest fields_request(const ModelConfig& model) {
  return {.inputs = model.variables,
          .outputs = model.outputs,
          .latitudes = model.latitudes(),
          .longitudes = model.longitudes(),
          .counts = std::vector<double>(num_terms, 1.0)};
}

std::unique_ptr<data::Source> VitData::open(const config::Config& config) const {
  return std::make_unique<data::FieldsSource>(data_of(config), fields_request(model_of(config)), config.train.seed,
                                              config.train.global_batch);
}

std::vector<std::string> VitData::problems_with_files(const config::Config& config) const {
  return data::problems_with_fields(data_of(config), fields_request(model_of(config)), config.train.evaluate_every > 0);
}

std::vector<std::pair<std::string, std::string>> VitData::file_facts(const config::Config& config) const {
  return data::facts_of_fields(data_of(config));
}

data::StageConfig VitData::stage(const config::Config& config) const { return data_of(config).stage; }

void VitData::hold_out(config::Config& config, const std::vector<std::string>& datasets,
                       const AttachedPaths& attached) const {
  data::hold_out_fields(data_of(config), datasets, attached);
}

void VitData::take_attached(config::Config& config, const AttachedPaths& attached) const {
  data::take_attached_statistics(data_of(config), attached);
}

std::string VitData::keep_statistics(config::Config& config, const AttachedPaths& attached) const {
  return data::keep_field_statistics(data_of(config), attached);
}

const data::Preparation* VitData::preparation() const {
  static const data::FieldsPreparation preparation;
  return &preparation;
}

// Each number is a function of the seed, of the tensor, of its sample and of its place in the sample.
data::MicroBatch VitData::random_batch(const config::Config& config, std::span<const int64_t> samples) const {
  const ModelConfig& model = model_of(config);
  const int64_t count = std::ssize(samples);
  data::MicroBatch batch{.samples = {samples.begin(), samples.end()},
                         .counts = std::vector<double>(num_terms, static_cast<double>(count))};
  const auto add = [&](const char* name, std::vector<int64_t> sizes, const auto& value_of) {
    const PhiloxKey key = stream_key(config.train.seed, name);
    const int64_t of_sample = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> values;
    for (const int64_t sample : samples) {
      for (int64_t i = 0; i < of_sample; ++i) {
        const PhiloxBlock draw = philox_at(key, static_cast<uint64_t>(sample), static_cast<uint64_t>(i));
        values.push_back(value_of(static_cast<float>(draw[0] % 1024) / 1024));
      }
    }
    sizes.insert(sizes.begin(), count);
    batch.tensors[name] = data::HostTensor::of(std::span<const float>(values), std::move(sizes));
  };
  const int64_t latitudes = model.latitudes(), longitudes = model.longitudes();
  // These functions make values of random numbers from 0 to 1.
  const auto normalised = [](float u) { return 4 * u - 2; };
  const auto hours = [](float u) { return 160 * u + 1; };
  const auto share = [](float u) { return u; };
  const auto has_value = [](float u) { return u < 0.125F ? 0.0F : 1.0F; };
  add("inputs", {model.num_channels(), latitudes, longitudes}, normalised);
  for (const char* name : {"targets", "before", "climatology", "climatology_before"}) {
    add(name, {model.num_outputs(), latitudes, longitudes}, normalised);
  }
  add("mask", {model.num_outputs(), latitudes, longitudes}, has_value);
  add("leads", {}, hours);
  add("times", {2}, share);
  const std::vector<float> weights = latitude_weights(latitudes);
  batch.tensors["weights"] = data::HostTensor::of(std::span<const float>(weights), {latitudes});
  return batch;
}

}  // namespace terrace::models::vit
