// Makes samples of mapped fields.
#include "terrace/data/fields/fields_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/spelling.h"
#include "terrace/data/fields/longitude_circle.h"
#include "terrace/data/fields/statistics/kept_moments.h"
#include "terrace/data/fields/statistics/normalised_fields.h"
#include "terrace/data/kept_statistics.h"
#include "terrace/data/staging/staged_reader.h"
#include "terrace/data/tensor_writer.h"

namespace terrace::data {
namespace {

// Adds problems with the names that a configuration or a model has.
void check_names(const std::vector<std::string>& names, const std::vector<FieldOfDataset>& known, const std::string& of,
                 const char* what, std::vector<std::string>& problems) {
  const std::vector<std::string> has = FieldsDescription::names(known);
  for (const std::string& name : names) {
    if (std::ranges::find(has, name) != has.end()) continue;
    const std::string nearest = nearest_word(name, has);
    problems.push_back(fmt::format("{} has no {} {}{}; it has {}", of, what, name,
                                   nearest.empty() ? "" : fmt::format(" (like {}?)", nearest),
                                   has.empty() ? "none" : fmt::format("{}", fmt::join(has, ", "))));
  }
}

void check_statistics(const std::vector<std::string>& names, const std::vector<FieldOfDataset>& known,
                      const std::string& path, std::vector<std::string>& problems) {
  for (const std::string& name : names) {
    const int64_t number = FieldsDescription::find(known, name);
    if (number >= 0 && known[static_cast<size_t>(number)].moments) continue;
    problems.push_back(
        fmt::format("{} has no mean and deviation of {}; name with data.statistics a description of a "
                    "dataset that was prepared with a training part and has it",
                    path, name));
  }
}

void check_lengths(const FieldsConfig& config, const FieldsDescription& description,
                   std::vector<std::string>& problems) {
  for (const double lead : config.leads) {
    if (description.step.steps(lead).value_or(0) > 0) continue;
    problems.push_back(fmt::format("data.leads has {} s, which is no multiple of the {} between two times of {}", lead,
                                   description.step.text(), config.fields));
  }
  if (config.input_step != 0 && description.step.steps(config.input_step).value_or(0) <= 0) {
    problems.push_back(fmt::format("data.input_step = {} s is no multiple of the {} between two times of {}",
                                   config.input_step, description.step.text(), config.fields));
  }
}

// Returns the problems that can be found once the descriptions are there.
std::vector<std::string> problems_with_descriptions(const FieldsConfig& config, const FieldsRequest& request,
                                                    const FieldsDescription& description,
                                                    const FieldsDescription& statistics) {
  std::vector<std::string> problems;
  const auto latitudes = std::ssize(description.latitudes), longitudes = std::ssize(description.longitudes);
  const bool fits = (request.latitudes == 0 || request.latitudes == latitudes) &&
                    (request.longitudes == 0 || request.longitudes == longitudes);
  if (!fits) {
    problems.push_back(fmt::format("the model has a grid of {} x {} places, and {} has one of {} x {}",
                                   request.latitudes, request.longitudes, config.fields, latitudes, longitudes));
  }
  std::vector<std::string> names = request.inputs;
  std::ranges::copy_if(request.outputs, std::back_inserter(names), [&](const std::string& name) {
    return std::ranges::find(request.inputs, name) == request.inputs.end();
  });
  check_names(names, description.variables, config.fields, "variable", problems);
  check_names(config.constants, description.constants, config.fields, "constant", problems);
  if (!problems.empty()) return problems;
  check_statistics(names, statistics.variables, statistics_path(config), problems);
  check_statistics(config.constants, statistics.constants, statistics_path(config), problems);
  check_lengths(config, description, problems);
  if (config.turned && !longitude_circle(description.longitudes).is_closed) {
    problems.push_back(fmt::format(
        "data.turned = true turns fields about the poles, and the {} longitudes of {}, from {:g} to {:g}, do not go "
        "around the globe; remove it",
        longitudes, config.fields, description.longitudes.front(), description.longitudes.back()));
  }
  return problems;
}

// Returns whether a time is there, and lies within the split.
bool lies_in(const TimeSplit& split, int64_t time) { return time >= split.first_time && time < split.end_time; }

// Adds the normalised numbers of a field.
void add_normalised(std::span<const float> field, const Moments& moments, TensorWriter& values) {
  normalise(field, moments, values.next(field.size()));
}

// Turns the rows of each sample's fields [B, C, H, W] eastward by as many columns.
void turn_fields(MicroBatch& batch, const std::vector<int64_t>& turns) {
  for (auto& [name, tensor] : batch.tensors) {
    if (tensor.sizes.size() != 4) continue;
    const int64_t rows = tensor.sizes[1] * tensor.sizes[2], columns = tensor.sizes[3];
    auto* values = reinterpret_cast<float*>(tensor.bytes.data());
    for (const int64_t turn : turns) {
      for (int64_t row = 0; row < rows; ++row, values += columns) {
        std::rotate(values, values + columns - turn, values + columns);
      }
    }
  }
}

}  // namespace

std::vector<std::string> problems_with_fields(const FieldsConfig& config, const FieldsRequest& request,
                                              bool evaluates) {
  try {
    const FieldsDescription description = read_fields_description(description_path(config.fields));
    const FieldsDescription statistics = statistics_of(config);
    std::vector<std::string> problems = problems_with_descriptions(config, request, description, statistics);
    if (!problems.empty()) return problems;
    if (!description.splits.contains("train")) {
      return {fmt::format("{} has no training part; prepare it with --train FROM TO", config.fields)};
    }
    const FieldsSource source(config, request, 0);
    if (source.samples_in_epoch() == 0) {
      return {fmt::format("the training part of {} has {} times, too few for {} inputs and the longest of data.leads",
                          config.fields, description.splits.at("train").count(), config.inputs)};
    }
    if (evaluates && source.held_out_pairs() == 0) {
      return {
          fmt::format("the {0} part of {1} has no time that can be predicted from inputs of the data; prepare it with "
                      "--{0} FROM TO and more times, or use train.evaluate_every = 0",
                      config.held_out_split, config.fields)};
    }
    return {};
  } catch (const UserError& error) {
    return {error.what()};
  }
}

std::vector<std::pair<std::string, std::string>> facts_of_fields(const FieldsConfig& config) {
  const auto of_file = [](const std::filesystem::path& path) {
    return std::pair{path.string(), checksum(MappedFile(path).bytes())};
  };
  std::vector<std::pair<std::string, std::string>> facts = {of_file(description_path(config.fields))};
  if (names_statistics_file(config.statistics)) facts.push_back(of_file(config.statistics));
  if (!config.climatology.empty()) facts.push_back(of_file(description_path(config.climatology)));
  return facts;
}

FieldsSource::FieldsSource(const FieldsConfig& config, const FieldsRequest& request, uint64_t seed,
                           int64_t global_batch)
    : config_(config),
      request_(request),
      dataset_(config.fields),
      lead_key_(stream_key(seed, "leads of fields")),
      turn_key_(stream_key(seed, "turns of fields")) {
  const FieldsDescription& all = description();
  const FieldsDescription statistics = statistics_of(config);
  throw_problems(problems_with_descriptions(config, request, all, statistics), "problems with the fields");
  const auto channels = [](const std::vector<std::string>& names, const std::vector<FieldOfDataset>& known,
                           const std::vector<FieldOfDataset>& described) {
    std::vector<Channel> list;
    for (const std::string& name : names) {
      const auto at = static_cast<size_t>(FieldsDescription::find(described, name));
      list.push_back({FieldsDescription::find(known, name), *described[at].moments});
    }
    return list;
  };
  inputs_ = channels(request.inputs, all.variables, statistics.variables);
  outputs_ = channels(request.outputs, all.variables, statistics.variables);
  constants_ = channels(config.constants, all.constants, statistics.constants);
  for (const Channel& output : outputs_) output_moments_.push_back(output.moments);
  for (const double lead : config.leads) leads_.push_back(*all.step.steps(lead));
  if (config.input_step != 0) input_steps_ = *all.step.steps(config.input_step);
  training_starts_ = training_starts();
  for (const int64_t lead : leads_) {
    for (const int64_t start : starts_into(config.held_out_split, lead)) {
      held_out_.push_back({start, dataset_.time_after(start, lead)});
    }
  }
  if (!training_starts_.empty()) {
    const PhiloxKey key = stream_key(seed, "order of fields");
    const std::vector<uint64_t> sizes = {training_starts_.size()};
    node_order_ = node_order_of(config.order, sizes, global_batch, key);
    order_ = node_order_ != nullptr ? Mixture(sizes, node_order_) : Mixture(sizes, {}, key, true);
  }
  if (!config.climatology.empty() && config.climatology != config.fields) climatology_.emplace(config.climatology);
}

std::vector<int64_t> FieldsSource::training_starts() const {
  const auto found = description().splits.find("train");
  if (found == description().splits.end()) return {};
  std::vector<int64_t> starts;
  for (int64_t time = found->second.first_time; time < found->second.end_time; ++time) {
    const auto is_there = [&](int64_t steps) { return lies_in(found->second, dataset_.time_after(time, steps)); };
    bool is_start = std::ranges::all_of(leads_, is_there);
    for (int64_t input = 1; input < config_.inputs; ++input) is_start = is_start && is_there(-input * input_steps_);
    if (is_start) starts.push_back(time);
  }
  return starts;
}

std::vector<int64_t> FieldsSource::starts_into(const std::string& split, int64_t lead) const {
  const auto found = description().splits.find(split);
  if (found == description().splits.end()) return {};
  std::vector<int64_t> starts;
  for (int64_t target = found->second.first_time; target < found->second.end_time; ++target) {
    const int64_t start = dataset_.time_after(target, -lead);
    if (start >= 0 && has_inputs(start)) starts.push_back(start);
  }
  return starts;
}

FieldPair FieldsSource::training_pair(uint64_t sample) const {
  if (!order_) {
    throw UserError::of("{} has no training times; prepare it with --train FROM TO", config_.fields);
  }
  const int64_t start = training_starts_[order_->at(sample).sample];
  const uint64_t draw = (uint64_t{philox_at(lead_key_, sample, 0)[0]} * leads_.size()) >> 32;
  return {start, dataset_.time_after(start, leads_[draw])};
}

int64_t FieldsSource::turn_of(uint64_t sample) const {
  if (!config_.turned) return 0;
  const auto columns = static_cast<uint64_t>(description().longitudes.size());
  return static_cast<int64_t>((uint64_t{philox_at(turn_key_, sample, 0)[0]} * columns) >> 32);
}

FieldPair FieldsSource::held_out_pair(uint64_t number) const { return held_out_.at(number); }
uint64_t FieldsSource::held_out_pairs() const { return held_out_.size(); }

std::vector<FieldPair> FieldsSource::pairs_of(const Samples& samples) const {
  std::vector<FieldPair> pairs;
  for (const uint64_t number : samples.numbers) {
    pairs.push_back(samples.held_out == nullptr ? training_pair(number) : held_out_pair(number));
  }
  return pairs;
}

MicroBatch FieldsSource::micro_batch(const Samples& samples, const TensorNames& names) const {
  MicroBatch made = batch(pairs_of(samples), {samples.numbers.begin(), samples.numbers.end()}, names);
  if (!config_.turned || samples.held_out != nullptr) return made;
  std::vector<int64_t> turns;
  for (const uint64_t number : samples.numbers) turns.push_back(turn_of(number));
  turn_fields(made, turns);
  return made;
}

void FieldsSource::describe(uint64_t sample, Json& record) const {
  const FieldPair pair = training_pair(sample);
  const auto text = [&](int64_t time) {
    return text_of(description().calendar, description().times.at(static_cast<size_t>(time)));
  };
  record["dataset"] = config_.fields;
  record["start"] = text(pair.start);
  record["target"] = text(pair.target);
  if (config_.turned) record["turned_columns"] = turn_of(sample);
}

std::vector<const MappedFile*> FieldsSource::staged_files() const {
  std::vector<const MappedFile*> files = {&dataset_.file()};
  if (climatology_) files.push_back(&climatology_->file());
  return files;
}

FileRanges FieldsSource::ranges_of(const Samples& samples, const TensorNames& names) const {
  FileRanges ranges;
  const auto add_fields = [&](int64_t time, const std::vector<Channel>& channels) {
    for (const Channel& channel : channels) {
      add_range(dataset_.file(), dataset_.field(time, channel.variable), ranges);
    }
  };
  const auto add_climatology = [&](int64_t instant) {
    const FieldsDataset& from = climatology_dataset();
    const FieldsDescription& all = from.description();
    if (all.climatology == ClimatologyKind::none) return;
    for (const std::string& output : request_.outputs) {
      const int64_t variable = FieldsDescription::find(all.variables, output);
      if (variable < 0) continue;
      add_range(from.file(), from.climatology(all.climatology_period(instant), variable), ranges);
    }
  };
  const auto instant = [&](int64_t time) { return description().times[static_cast<size_t>(time)]; };
  for (const FieldPair& pair : pairs_of(samples)) {
    if (names.contains("inputs")) {
      for (int64_t input = config_.inputs; input-- > 0;) {
        add_fields(dataset_.time_after(pair.start, -input * input_steps_), inputs_);
      }
      for (const Channel& constant : constants_) {
        add_range(dataset_.file(), dataset_.constant(constant.variable), ranges);
      }
    }
    if (names.contains("targets") || names.contains("mask")) add_fields(pair.target, outputs_);
    if (names.contains("before") || names.contains("climatology_before")) add_fields(pair.start, outputs_);
    if (names.contains("climatology")) add_climatology(instant(pair.target));
    if (names.contains("climatology_before")) add_climatology(instant(pair.start));
  }
  return ranges;
}

void FieldsSource::add_fields(int64_t time, const std::vector<Channel>& channels, TensorWriter& values) const {
  if (staged() == nullptr) dataset_.expect(time);
  for (const Channel& channel : channels) {
    NumbersAtHand at_hand(staged());
    add_normalised(at_hand(dataset_.file(), dataset_.field(time, channel.variable)), channel.moments, values);
  }
}

void FieldsSource::add_inputs(const FieldPair& pair, TensorWriter& values) const {
  for (int64_t input = config_.inputs; input-- > 0;) {
    add_fields(dataset_.time_after(pair.start, -input * input_steps_), inputs_, values);
  }
  for (const Channel& constant : constants_) {
    NumbersAtHand at_hand(staged());
    add_normalised(at_hand(dataset_.file(), dataset_.constant(constant.variable)), constant.moments, values);
  }
}

void FieldsSource::check_climatology(const TensorNames& names) const {
  if (!names.contains("climatology") && !names.contains("climatology_before")) return;
  const FieldsDataset& from = climatology_dataset();
  const FieldsDescription& all = from.description();
  if (all.climatology == ClimatologyKind::none) {
    throw UserError::of("{} has no climatology; prepare it with --train FROM TO and --climatology monthly or daily",
                        from.prefix());
  }
  const bool same_grid = all.latitudes.size() == description().latitudes.size() &&
                         all.longitudes.size() == description().longitudes.size();
  for (const std::string& output : request_.outputs) {
    const bool is_there = FieldsDescription::find(all.variables, output) >= 0;
    if (!is_there || !same_grid || all.calendar != description().calendar) {
      throw UserError::of(
          "the climatology of {} lacks {} on the grid and in the calendar of {}; name another dataset "
          "with data.climatology",
          from.prefix(), output, config_.fields);
    }
  }
}

void FieldsSource::add_climatology(int64_t target, TensorWriter& values) const {
  const FieldsDataset& from = climatology_dataset();
  const FieldsDescription& all = from.description();
  const int64_t period = all.climatology_period(target);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const int64_t variable = FieldsDescription::find(all.variables, request_.outputs[i]);
    NumbersAtHand at_hand(staged());
    add_normalised(at_hand(from.file(), from.climatology(period, variable)), outputs_[i].moments, values);
  }
}

void FieldsSource::add_climatology_before(int64_t start, int64_t done, TensorWriter& values) const {
  const std::span<float> written = values.rest();
  add_climatology(dataset_.instant_after(start, done), values);
  if (done > 0) return keep_missing(start, written.first(written.size() - values.rest().size()), 0);
  auto at = written.begin();
  for (const Channel& output : outputs_) {
    NumbersAtHand at_hand(staged());
    for (const float value : at_hand(dataset_.file(), dataset_.field(start, output.variable))) {
      if (std::isnan(value)) *at = 0;
      ++at;
    }
  }
}

MicroBatch FieldsSource::batch(const std::vector<FieldPair>& pairs, std::vector<int64_t> numbers,
                               const TensorNames& names) const {
  const FieldsDescription& all = description();
  const auto samples = std::ssize(pairs), rows = std::ssize(all.latitudes), columns = std::ssize(all.longitudes);
  const std::vector<int64_t> of_outputs = {samples, std::ssize(outputs_), rows, columns};
  check_climatology(names);
  MicroBatch batch{.samples = std::move(numbers)};
  for (const double count : request_.counts) batch.counts.push_back(count * static_cast<double>(samples));
  const auto add = [&](const char* name, std::vector<int64_t> sizes, const auto& values_of_pair) {
    if (!names.contains(name)) return;
    TensorWriter values(std::move(sizes));
    for (const FieldPair& pair : pairs) values_of_pair(pair, values);
    batch.tensors[name] = values.finish();
  };
  const int64_t channels = config_.inputs * std::ssize(inputs_) + std::ssize(constants_);
  const auto instant = [&](int64_t time) { return all.times[static_cast<size_t>(time)]; };
  add("inputs", {samples, channels, rows, columns},
      [&](const FieldPair& pair, TensorWriter& values) { add_inputs(pair, values); });
  add("targets", of_outputs,
      [&](const FieldPair& pair, TensorWriter& values) { add_fields(pair.target, outputs_, values); });
  add("before", of_outputs,
      [&](const FieldPair& pair, TensorWriter& values) { add_fields(pair.start, outputs_, values); });
  add("mask", of_outputs, [&](const FieldPair& pair, TensorWriter& values) {
    for (const Channel& output : outputs_) {
      NumbersAtHand at_hand(staged());
      const std::span<const float> field = at_hand(dataset_.file(), dataset_.field(pair.target, output.variable));
      std::ranges::transform(field, values.next(field.size()).begin(),
                             [](float value) { return std::isnan(value) ? 0.0F : 1.0F; });
    }
  });
  add("leads", {samples}, [&](const FieldPair& pair, TensorWriter& values) {
    values.add(static_cast<float>(static_cast<double>(instant(pair.target) - instant(pair.start)) / 3600));
  });
  add("times", {samples, 2}, [&](const FieldPair& pair, TensorWriter& values) {
    values.add(static_cast<float>(part_of_year(all.calendar, instant(pair.start))));
    values.add(static_cast<float>(static_cast<double>(date_of(all.calendar, instant(pair.start)).second) / 86400));
  });
  add("climatology", of_outputs,
      [&](const FieldPair& pair, TensorWriter& values) { add_climatology(instant(pair.target), values); });
  add("climatology_before", of_outputs,
      [&](const FieldPair& pair, TensorWriter& values) { add_climatology_before(pair.start, 0, values); });
  if (names.contains("weights")) {
    const std::vector<double> cosines = cosine_weights(all.latitudes);
    const std::vector<float> weights(cosines.begin(), cosines.end());
    batch.tensors["weights"] = HostTensor::of(std::span<const float>(weights), {rows});
  }
  return batch;
}

std::vector<AttachedFile> FieldsSource::attached_files() const {
  const std::string kept = config_.kept_statistics.empty() ? "" : statistics_of(config_).text();
  return {{.role = "statistics", .path = statistics_path(config_), .stored_as = "statistics.json", .text = kept}};
}

Json FieldsSource::identity() const {
  const FieldsDescription& all = description();
  Json moments = Json::array();
  for (const auto* channels : {&inputs_, &outputs_, &constants_}) {
    for (const Channel& channel : *channels) moments.push_back({channel.moments.mean, channel.moments.deviation});
  }
  const auto split = all.splits.find("train");
  return {
      {"fields", all.fields.checksum},
      {"constants", all.constant_fields.checksum},
      {"climatology", climatology_dataset().description().climatology_fields.checksum},
      {"training_times", split == all.splits.end() ? Json() : Json{split->second.first_time, split->second.end_time}},
      {"leads", leads_},
      {"inputs", config_.inputs},
      {"input_steps", input_steps_},
      {"moments", moments}};
}

}  // namespace terrace::data
