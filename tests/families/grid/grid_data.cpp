// Reads prepared fields and draws pairs of them.
#include "tests/families/grid/grid_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/base/text/json.h"

namespace terrace::grid {
namespace {

std::string statistics_of(const DataConfig& config) {
  return config.statistics.empty() ? config.fields + ".json" : config.statistics;
}

}  // namespace

std::vector<float> place_weights(const ModelConfig& config) {
  std::vector<float> weights;
  for (int64_t latitude = 0; latitude < config.latitudes; ++latitude) {
    const double angle = (static_cast<double>(latitude) + 0.5) / static_cast<double>(config.latitudes) - 0.5;
    for (int64_t longitude = 0; longitude < config.longitudes; ++longitude) {
      weights.push_back(static_cast<float>(std::cos(angle * std::numbers::pi)));
    }
  }
  return weights;
}

std::vector<std::string> problems_with_grid_files(const ModelConfig& model, const DataConfig& config) {
  std::vector<std::string> problems;
  for (const std::string& file : {config.fields + ".fields", config.fields + ".json", statistics_of(config)}) {
    if (!std::filesystem::exists(file)) problems.push_back(fmt::format("{} does not exist", file));
  }
  if (!problems.empty()) return problems;
  const Json description = parse_json_as<Json>(read_text(config.fields + ".json"));
  const auto has = description.at("variables").get<std::vector<std::string>>();
  if (has != model.variables) {
    problems.push_back(fmt::format("model.variables = [{}], and {} has [{}]", fmt::join(model.variables, ", "),
                                   config.fields, fmt::join(has, ", ")));
  }
  const auto latitudes = description.at("latitudes").get<int64_t>(),
             longitudes = description.at("longitudes").get<int64_t>();
  if (latitudes != model.latitudes || longitudes != model.longitudes) {
    problems.push_back(fmt::format("model has a grid of {} x {} places, and {} one of {} x {}", model.latitudes,
                                   model.longitudes, config.fields, latitudes, longitudes));
  }
  const auto seconds = description.at("seconds").get<double>();
  for (const double lead : config.leads) {
    if (std::fmod(lead, seconds) == 0) continue;
    problems.push_back(
        fmt::format("data.leads has {} s, which is no multiple of the {} s between two times", lead, seconds));
  }
  return problems;
}

GridSource::GridSource(const ModelConfig& model, const DataConfig& config, uint64_t seed)
    : model_(model), config_(config), statistics_(statistics_of(config)), key_(stream_key(seed, "leads of grids")) {
  const std::vector<std::string> problems = problems_with_grid_files(model, config);
  if (!problems.empty()) throw UserError(fmt::format("{}", fmt::join(problems, "\n")));
  file_ = MappedFile(config.fields + ".fields");
  checksum_ = checksum(file_.bytes());
  const Json description = parse_json_as<Json>(read_text(config.fields + ".json"));
  const Json statistics = parse_json_as<Json>(read_text(statistics_));
  seconds_ = description.at("seconds").get<double>();
  means_ = statistics.at("means").get<std::vector<double>>();
  deviations_ = statistics.at("deviations").get<std::vector<double>>();
  for (const double lead : config.leads) leads_.push_back(std::llround(lead / seconds_));
  const int64_t field_bytes = std::ssize(model.variables) * model.places() * static_cast<int64_t>(sizeof(float));
  const int64_t times = std::ssize(file_.bytes()) / field_bytes;
  const int64_t starts = times - *std::ranges::max_element(leads_);
  // No start of a training sample leads into what is held out.
  held_out_ = static_cast<int64_t>(config.held_out * static_cast<double>(std::max<int64_t>(starts, 0)));
  training_ = held_out_ == starts ? 0 : starts - held_out_ - (held_out_ > 0 ? *std::ranges::max_element(leads_) : 0);
  if (starts <= 0 || training_ < 0 || (training_ == 0 && held_out_ < starts)) {
    throw UserError::of("{} has {} times, which leave no start to train on; prepare more or hold out less",
                        config.fields, times);
  }
  if (training_ > 0) {
    order_.emplace(std::vector<uint64_t>{static_cast<uint64_t>(training_)}, std::vector<double>{},
                   stream_key(seed, "order of grids"), true);
  }
}

double GridSource::in_units(double value, size_t variable) const {
  return means_.at(variable) + deviations_.at(variable) * value;
}

Pair GridSource::pair_of(int64_t number, bool held_out) const {
  if (held_out) {
    const int64_t start = number / std::ssize(leads_);
    const int64_t first = file_.bytes().empty() ? 0
                          : training_ == 0      ? 0
                                                : training_ + *std::ranges::max_element(leads_);
    return {first + start, first + start + leads_[static_cast<size_t>(number % std::ssize(leads_))]};
  }
  const auto drawn = static_cast<uint64_t>(number);
  const auto start = static_cast<int64_t>(order_->at(drawn).sample);
  const size_t lead = philox_at(key_, drawn, 0)[0] % leads_.size();
  return {start, start + leads_[lead]};
}

void GridSource::add_field(int64_t time, std::vector<float>& values, double lead_days) const {
  const auto variables = model_.variables.size();
  const auto places = static_cast<size_t>(model_.places());
  const auto* field =
      reinterpret_cast<const float*>(file_.bytes().data()) + static_cast<size_t>(time) * variables * places;
  for (size_t place = 0; place < places; ++place) {
    for (size_t variable = 0; variable < variables; ++variable) {
      values.push_back(
          static_cast<float>((field[variable * places + place] - means_[variable]) / deviations_[variable]));
    }
    if (lead_days > 0) values.push_back(static_cast<float>(lead_days));
  }
}

data::MicroBatch GridSource::batch(std::vector<int64_t> numbers, bool held_out, const data::TensorNames& names) const {
  std::vector<float> fields, targets;
  const std::vector<float> weights = place_weights(model_);
  for (const int64_t number : numbers) {
    const Pair pair = pair_of(number, held_out);
    if (names.contains("fields"))
      add_field(pair.start, fields, static_cast<double>(pair.later - pair.start) * seconds_ / 86400);
    if (names.contains("targets")) add_field(pair.later, targets, 0);
  }
  const auto samples = static_cast<int64_t>(numbers.size());
  const int64_t variables = std::ssize(model_.variables), places = model_.places();
  const double weight = static_cast<double>(samples) * std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::vector<double> by_variable = variable_weights(model_);
  data::MicroBatch batch{.samples = std::move(numbers)};
  batch.counts = {weight * std::accumulate(by_variable.begin(), by_variable.end(), 0.0), weight, weight,
                  static_cast<double>(samples)};
  if (names.contains("fields")) {
    batch.tensors["fields"] = data::HostTensor::of(std::span<const float>(fields), {samples, places, variables + 1});
  }
  if (names.contains("targets")) {
    batch.tensors["targets"] = data::HostTensor::of(std::span<const float>(targets), {samples, places, variables});
  }
  if (names.contains("weights"))
    batch.tensors["weights"] = data::HostTensor::of(std::span<const float>(weights), {places});
  return batch;
}

Json GridSource::identity() const {
  return {{"fields", checksum_},
          {"held_out", held_out_},
          {"leads", leads_},
          {"means", means_},
          {"deviations", deviations_}};
}

}  // namespace terrace::grid
