// Writes and reads the description of a dataset of fields as JSON.
#include "terrace/data/fields/fields_description.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

constexpr const char* format_name = "terrace fields";
constexpr int format_version = 1;
constexpr double month_seconds = 30.4375 * 86400;  // a twelfth of 365.25 days
constexpr int64_t day_length = 86400;

constexpr std::array<std::pair<const char*, ClimatologyKind>, 3> climatology_words = {
    {{"none", ClimatologyKind::none}, {"monthly", ClimatologyKind::monthly}, {"daily", ClimatologyKind::daily}}};

Json json_of(const Moments& moments) { return {{"mean", moments.mean}, {"deviation", moments.deviation}}; }

Moments moments_of(const Json& json) { return {json.at("mean").get<double>(), json.at("deviation").get<double>()}; }

Json json_of(const FieldOfDataset& field) {
  Json json = {{"name", field.name}, {"variable", field.variable}};
  if (field.level) json.update({{"level", *field.level}, {"level_units", field.level_units}});
  json.update({{"units", field.units}, {"standard_name", field.standard_name}, {"long_name", field.long_name}});
  for (const auto& [dimension, entry] : field.entries) {
    json["selected"][dimension] = {{"index", entry.index}, {"label", entry.label}};
  }
  if (field.moments) json.update(json_of(*field.moments));
  if (field.changes) json["changes"] = json_of(*field.changes);
  return json;
}

FieldOfDataset field_of(const Json& json) {
  FieldOfDataset field{.name = json.at("name"),
                       .variable = json.at("variable"),
                       .units = json.at("units"),
                       .standard_name = json.at("standard_name"),
                       .long_name = json.at("long_name")};
  if (json.contains("level")) {
    field.level = json.at("level").get<double>();
    field.level_units = json.at("level_units");
  }
  if (const auto selected = json.find("selected"); selected != json.end()) {
    for (const auto& [dimension, entry] : selected->items()) {
      field.entries[dimension] = {.index = entry.at("index"), .label = entry.at("label")};
    }
  }
  if (json.contains("mean")) field.moments = moments_of(json);
  if (json.contains("changes")) field.changes = moments_of(json.at("changes"));
  return field;
}

Json json_of(const StoredArray& array) {
  return {{"offset", array.offset}, {"sizes", array.sizes}, {"checksum", array.checksum}};
}

StoredArray array_of(const Json& json) {
  return {.offset = json.at("offset"),
          .sizes = json.at("sizes").get<std::vector<uint64_t>>(),
          .checksum = json.at("checksum")};
}

template <typename Fields>
Json list_of(const Fields& fields) {
  Json list = Json::array();
  for (const FieldOfDataset& field : fields) list.push_back(json_of(field));
  return list;
}

// Returns a JSON text with one line for each key, so that thousands of times do not take a line each.
std::string in_lines(const Json& json) {
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("{}\n  {}: ", text.size() == 1 ? "" : ",", Json(key).dump());
    const bool is_list_of_objects = value.is_array() && !value.empty() && value.front().is_object();
    if (!is_list_of_objects) {
      text += value.dump();
      continue;
    }
    for (size_t i = 0; i < value.size(); ++i) text += fmt::format("{}\n    {}", i == 0 ? "[" : ",", value[i].dump());
    text += "\n  ]";
  }
  return text + "\n}\n";
}

FieldsDescription description_of(const Json& json) {
  FieldsDescription description;
  for (const Json& one : json.at("variables")) description.variables.push_back(field_of(one));
  for (const Json& one : json.at("constants")) description.constants.push_back(field_of(one));
  description.latitudes = json.at("latitudes").get<std::vector<double>>();
  description.longitudes = json.at("longitudes").get<std::vector<double>>();
  description.calendar = calendar_named(json.at("calendar").get<std::string>());
  description.step = {json.at("step").at("seconds"), json.at("step").at("months")};
  description.times = json.at("times").get<std::vector<int64_t>>();
  for (const auto& [name, split] : json.at("splits").items()) {
    description.splits[name] = {split.at("from"), split.at("to"), split.at("first_time"), split.at("end_time")};
  }
  for (const auto& [word, kind] : climatology_words) {
    if (json.at("climatology") == word) description.climatology = kind;
  }
  if (const auto found = json.find("harmonics"); found != json.end()) description.harmonics = found->get<int64_t>();
  description.has_missing = json.at("has_missing");
  description.fields = array_of(json.at("arrays").at("fields"));
  description.constant_fields = array_of(json.at("arrays").at("constants"));
  description.climatology_fields = array_of(json.at("arrays").at("climatology"));
  return description;
}

}  // namespace

std::string TimeStep::text() const {
  if (months > 0 && months % 12 == 0) return counted(static_cast<uint64_t>(months / 12), "year");
  if (months > 0) return counted(static_cast<uint64_t>(months), "month");
  if (seconds % day_length == 0) return counted(static_cast<uint64_t>(seconds / day_length), "day");
  return seconds % 3600 == 0 ? fmt::format("{} h", seconds / 3600) : fmt::format("{} s", seconds);
}

std::optional<int64_t> TimeStep::steps(double length_seconds) const {
  const double step = months > 0 ? static_cast<double>(months) * month_seconds : static_cast<double>(seconds);
  if (step <= 0) return std::nullopt;
  const double count = std::round(length_seconds / step);
  const double allowed = months > 0 ? static_cast<double>(day_length) : 0.5;
  if (std::abs(length_seconds - count * step) > allowed) return std::nullopt;
  return static_cast<int64_t>(count);
}

std::optional<int64_t> TimeStep::between(Calendar calendar, int64_t from, int64_t to) const {
  if (months > 0) {
    const Date first = date_of(calendar, from), last = date_of(calendar, to);
    const int64_t apart = (last.year - first.year) * 12 + last.month - first.month;
    return apart % months == 0 ? std::optional(apart / months) : std::nullopt;
  }
  if (seconds == 0) return from == to ? std::optional<int64_t>(0) : std::nullopt;
  return (to - from) % seconds == 0 ? std::optional((to - from) / seconds) : std::nullopt;
}

uint64_t StoredArray::numbers() const {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
}

int64_t FieldsDescription::climatology_periods() const {
  if (climatology == ClimatologyKind::none) return 0;
  if (climatology == ClimatologyKind::monthly) return 12;
  const int64_t days = calendar == Calendar::day_360 ? 360 : calendar == Calendar::noleap ? 365 : 366;
  return days * climatology_times_of_day();
}

int64_t FieldsDescription::climatology_times_of_day() const {
  const bool has_times = climatology == ClimatologyKind::daily && step.seconds > 0 && step.seconds < day_length;
  return has_times ? day_length / step.seconds : 1;
}

int64_t FieldsDescription::climatology_period(int64_t instant) const {
  const Date date = date_of(calendar, instant);
  if (climatology == ClimatologyKind::monthly) return date.month - 1;
  const int64_t of_day = climatology_times_of_day();
  return day_of_longest_year(calendar, date) * of_day + date.second * of_day / day_length;
}

int64_t FieldsDescription::find(const std::vector<FieldOfDataset>& list, const std::string& name) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return static_cast<int64_t>(i);
  }
  return -1;
}

std::vector<std::string> FieldsDescription::names(const std::vector<FieldOfDataset>& list) {
  std::vector<std::string> names;
  for (const FieldOfDataset& field : list) names.push_back(field.name);
  return names;
}

std::string FieldsDescription::text() const {
  Json of_splits = Json::object();
  for (const auto& [name, split] : splits) {
    of_splits[name] = {
        {"from", split.from}, {"to", split.to}, {"first_time", split.first_time}, {"end_time", split.end_time}};
  }
  Json json = {{"format", format_name},
               {"version", format_version},
               {"variables", list_of(variables)},
               {"constants", list_of(constants)},
               {"latitudes", latitudes},
               {"longitudes", longitudes},
               {"calendar", name_of(calendar)},
               {"step", {{"seconds", step.seconds}, {"months", step.months}}},
               {"splits", of_splits},
               {"climatology", climatology_words[static_cast<size_t>(climatology)].first},
               {"has_missing", has_missing},
               {"arrays",
                {{"fields", json_of(fields)},
                 {"constants", json_of(constant_fields)},
                 {"climatology", json_of(climatology_fields)}}},
               {"times", times}};
  if (harmonics) json["harmonics"] = *harmonics;
  return in_lines(json);
}

std::filesystem::path fields_path(const std::string& prefix) { return prefix + ".nc"; }
std::filesystem::path description_path(const std::string& prefix) { return prefix + ".json"; }

bool describes_fields(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const Json json = parse_json_or_discard(read_text(path));
  return json.is_object() && json.contains("format") && json.at("format") == format_name;
}

FieldsDescription read_fields_description(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError::of(
        "{} does not exist; make the dataset with terrace data prepare --kind fields INPUTS --output {}", path.string(),
        std::filesystem::path(path).replace_extension().string());
  }
  const Json json = parse_json_or_discard(read_text(path));
  if (!json.is_object() || !json.contains("format") || json.at("format") != format_name) {
    throw UserError::of(
        "{} does not describe prepared fields; make the dataset with terrace data prepare --kind fields",
        path.string());
  }
  if (!json.contains("version") || json.at("version") != format_version) {
    throw UserError::of("{} is not of version {} of its format, which this program reads; prepare the dataset again",
                        path.string(), format_version);
  }
  try {
    return description_of(json);
  } catch (const Json::exception& error) {
    throw UserError::of("{} is incomplete: {}; prepare the dataset again", path.string(), error.what());
  }
}

}  // namespace terrace::data
