// Writes and reads the description of a dataset of fields as JSON.
#include "terrace/data/fields/fields_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"
#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

constexpr const char* format_name = "terrace fields";
constexpr int format_version = 1;
constexpr double month_seconds = 30.4375 * 86400;  // a twelfth of 365.25 days
constexpr int64_t day_length = 86400;

constexpr std::array<std::string_view, 3> climatology_words = {"none", "monthly", "daily"};

std::string_view calendar_word(Calendar calendar) { return name_of(calendar); }

ClimatologyKind climatology_of(const Json& json) {
  const auto word = std::ranges::find(climatology_words, json);
  return word == climatology_words.end() ? ClimatologyKind::none
                                         : static_cast<ClimatologyKind>(word - climatology_words.begin());
}

Calendar calendar_of(const Json& json) { return calendar_named(json.get<std::string>()); }

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

}  // namespace

void members_of(auto& json, MaybeConst<Moments> auto& one) { json("mean", one.mean)("deviation", one.deviation); }

void members_of(auto& json, MaybeConst<DimensionEntry> auto& one) { json("index", one.index)("label", one.label); }

void members_of(auto& json, MaybeConst<FieldOfDataset> auto& one) {
  json("name", one.name)("variable", one.variable);
  if (json.optional("level", one.level)) json("level_units", one.level_units);
  json("units", one.units)("standard_name", one.standard_name)("long_name", one.long_name);
  json.optional("selected", one.entries);
  if (json.has("mean", one.moments.has_value())) {
    if constexpr (requires { one.moments.emplace(); }) one.moments.emplace();
    members_of(json, *one.moments);
  }
  json.optional("changes", one.changes);
}

void members_of(auto& json, MaybeConst<StoredArray> auto& one) {
  json("offset", one.offset)("sizes", one.sizes)("checksum", one.checksum);
}

void members_of(auto& json, MaybeConst<TimeStep> auto& one) { json("seconds", one.seconds)("months", one.months); }

void members_of(auto& json, MaybeConst<TimeSplit> auto& one) {
  json("from", one.from)("to", one.to)("first_time", one.first_time)("end_time", one.end_time);
}

void members_of(auto& json, MaybeConst<FieldsDescription> auto& one) {
  json("variables", one.variables)("constants", one.constants);
  json("latitudes", one.latitudes)("longitudes", one.longitudes);
  json.as("calendar", one.calendar, calendar_word, calendar_of)("step", one.step)("splits", one.splits);
  json.as("climatology", one.climatology, climatology_word, climatology_of)("has_missing", one.has_missing);
  json.object("arrays", [&](auto& arrays) {
    arrays("fields", one.fields)("constants", one.constant_fields)("climatology", one.climatology_fields);
  });
  json("times", one.times).optional("harmonics", one.harmonics);
}

std::string_view climatology_word(ClimatologyKind kind) { return climatology_words[static_cast<size_t>(kind)]; }

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
  Json json = {{"format", format_name}, {"version", format_version}};
  json.update(json_of_record(*this));
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
    return record_of<FieldsDescription>(json);
  } catch (const Json::exception& error) {
    throw UserError::of("{} is incomplete: {}; prepare the dataset again", path.string(), error.what());
  }
}

}  // namespace terrace::data
