// Reads the values of flags.
#include "terrace/data/fields/preparation/fields_flags.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

std::vector<double> levels_of(const std::vector<std::string>& words) {
  std::vector<double> levels;
  for (const std::string& word : words) {
    double level = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), level);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw UserError::of("--levels {} is no number; give levels such as 500,850 (hPa)", word);
    }
    levels.push_back(level);
  }
  return levels;
}

std::map<std::string, std::string> units_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> units;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UserError::of("--units {} is no VARIABLE=UNITS, such as z=m2/s2", word);
    }
    units[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return units;
}

std::vector<DimensionChoice> choices_of(const std::vector<std::string>& words) {
  constexpr std::string_view by_value = "value:";
  std::vector<DimensionChoice> choices;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string entry = equals == std::string::npos ? "" : word.substr(equals + 1);
    DimensionChoice choice{.dimension = word.substr(0, equals)};
    size_t index = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    if (entry.starts_with(by_value) && entry.size() > by_value.size()) {
      choice.label = entry.substr(by_value.size());
    } else if (error == std::errc() && end == entry.data() + entry.size()) {
      choice.index = index;
    }
    if (choice.dimension.empty() || (!choice.index && choice.label.empty())) {
      throw UserError::of(
          "--select {} is neither DIMENSION=INDEX, such as member=0 for the first, nor DIMENSION=value:COORDINATE, "
          "such "
          "as expver=value:1",
          word);
    }
    if (std::ranges::find(choices, choice.dimension, &DimensionChoice::dimension) != choices.end()) {
      throw UserError::of("--select names {} twice; a field is read at one entry of it", choice.dimension);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

// Reads the number of harmonics: at most 4 of a climatology by month, whose twelve months determine no more than 5, and
// at most 12 of a climatology by day, which determines more than is of use.
int64_t harmonics_of(const std::string& word, ClimatologyKind climatology) {
  const int64_t most = climatology == ClimatologyKind::monthly ? 4 : 12;
  int64_t harmonics = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), harmonics);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (climatology == ClimatologyKind::none) {
    throw UserError::of("--harmonics {} smooths a climatology, and --climatology none makes none; leave one out", word);
  }
  if (!is_number || harmonics < 0 || harmonics > most) {
    throw UserError::of("--harmonics {}; give the number of harmonics of the year, from 0 (its mean) to {}", word,
                        most);
  }
  return harmonics;
}

}  // namespace

std::vector<PrepareFlag> flags_of_fields() {
  return {
      {.name = "variables",
       .about = "Variables by name, such as z,t_850: all levels of z and one of t (default: all that have times)",
       .is_list = true},
      {.name = "levels", .about = "Levels, pressures in hPa, such as 500,850 (default: all)", .is_list = true},
      {.name = "constants", .about = "Fields that do not change (default: all without times)", .is_list = true},
      {.name = "select",
       .about =
           "DIMENSION=INDEX or DIMENSION=value:COORDINATE, such as member=0: the entry of a dimension besides those "
           "of the grid, times and levels (default: only dimensions of length 1)",
       .is_list = true},
      {.name = "train",
       .about = "First and last date of the training part, such as 1979 2015 (default: all times)",
       .is_range = true},
      {.name = "validation", .about = "First and last date of the validation part (default: none)", .is_range = true},
      {.name = "test", .about = "First and last date of the test part (default: none)", .is_range = true},
      {.name = "climatology",
       .about = "Mean of the training part by month (monthly), by day of year and time of day (daily), or none "
                "(default: monthly)"},
      {.name = "harmonics",
       .about = "Smooth the climatology: its mean and so many harmonics of the year (default: no smoothing)"},
      {.name = "units", .about = "VARIABLE=UNITS in place of those in the files (default: none)", .is_list = true},
      {.name = "allow-gaps", .about = "Take the times that all variables have, with gaps", .is_switch = true},
      {.name = "mask", .about = "Keep missing values, which are otherwise refused", .is_switch = true},
      {.name = "resume", .about = "Continue a preparation that was killed, where there is one", .is_switch = true}};
}

FieldsFlags fields_flags(const PrepareRequest& request) {
  const auto values = [&](const char* flag) {
    const auto found = request.flags.find(flag);
    return found == request.flags.end() ? std::vector<std::string>{} : found->second;
  };
  FieldsFlags flags;
  flags.selection.variables = values("variables");
  flags.selection.constants = values("constants");
  flags.selection.levels = levels_of(values("levels"));
  flags.selection.units = units_of(values("units"));
  flags.selection.dimensions = choices_of(values("select"));
  flags.selection.allow_gaps = request.flags.contains("allow-gaps");
  flags.mask = request.flags.contains("mask");
  for (const char* split : {"train", "validation", "test"}) {
    if (!request.flags.contains(split)) continue;
    const std::vector<std::string> dates = values(split);
    if (dates.size() != 2) {
      throw UserError::of("--{} has {}; give its first and last date, such as --{} 1979 2015", split,
                          counted(dates.size(), "date"), split);
    }
    flags.selection.splits[split] = {dates[0], dates[1]};
  }
  if (const std::vector<std::string> word = values("climatology"); !word.empty()) {
    if (word[0] != "monthly" && word[0] != "daily" && word[0] != "none") {
      throw UserError::of("--climatology {}; give monthly, daily (by day of year and time of day) or none", word[0]);
    }
    flags.climatology = word[0] == "monthly" ? ClimatologyKind::monthly
                        : word[0] == "daily" ? ClimatologyKind::daily
                                             : ClimatologyKind::none;
  }
  if (const std::vector<std::string> word = values("harmonics"); !word.empty()) {
    flags.harmonics = harmonics_of(word[0], flags.climatology);
  }
  return flags;
}

}  // namespace terrace::data
