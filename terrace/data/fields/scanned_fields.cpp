// Compares the grids, calendars and times of files with those of the first one.
#include "terrace/data/fields/scanned_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"

namespace terrace::data {
namespace {

// Coordinates in fp32 are off by less than this, in degrees.
constexpr double same_coordinate = 1e-4;

bool are_same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) < same_coordinate; });
}

bool has_gregorian_rule(Calendar calendar, const std::vector<int64_t>& times) {
  const int64_t reform = instant_of(Calendar::standard, {.year = 1582, .month = 10, .day = 15});
  const bool is_late = times.empty() || *std::ranges::min_element(times) >= reform;
  return calendar == Calendar::proleptic_gregorian || (calendar == Calendar::standard && is_late);
}

std::string problem_with_file(const FileContents& contents, const FileContents& first) {
  if (!are_same_grid(contents.grid, first.grid)) {
    return fmt::format("{} has another grid, {}, than {}, {}; interpolate one of them first", contents.path.string(),
                       grid_text(contents.grid), first.path.string(), grid_text(first.grid));
  }
  if (!calendars_agree(contents.calendar, contents.times, first.calendar, first.times)) {
    return fmt::format("{} has the calendar {}, and {} has {}; prepare datasets of one calendar",
                       contents.path.string(), name_of(contents.calendar), first.path.string(),
                       name_of(first.calendar));
  }
  std::vector<int64_t> times = contents.times;
  std::ranges::sort(times);
  const auto twice = std::ranges::adjacent_find(times);
  if (twice == times.end()) return "";
  return fmt::format("{} has the time {} twice; leave one of them out", contents.path.string(),
                     text_of(contents.calendar, *twice));
}

size_t axis_of(std::vector<std::vector<int64_t>>& axes, const std::vector<int64_t>& times) {
  const auto found = std::ranges::find(axes, times);
  if (found != axes.end()) return static_cast<size_t>(found - axes.begin());
  axes.push_back(times);
  return axes.size() - 1;
}

// A variable whose only time is no dimension of its file, as of an orography that was cut out of a time, is a constant
// where other variables have other times.
void take_constants_with_a_time(ScannedFields& scanned) {
  std::map<std::string, std::set<int64_t>> times_of;
  std::set<int64_t> all;
  std::set<std::string> series;
  for (const ScannedFile& file : scanned.files) {
    const std::vector<int64_t>& times = scanned.axes[file.axis];
    for (const FileVariable& variable : file.variables) {
      if (!variable.has_times) continue;
      times_of[variable.name].insert(times.begin(), times.end());
      all.insert(times.begin(), times.end());
      if (!variable.has_single_time) series.insert(variable.name);
    }
  }
  for (ScannedFile& file : scanned.files) {
    for (FileVariable& variable : file.variables) {
      const bool is_constant = variable.has_single_time && !series.contains(variable.name) &&
                               times_of[variable.name].size() == 1 && all.size() > 1;
      if (is_constant) variable.has_times = false;
    }
  }
}

}  // namespace

bool are_same_grid(const FieldGrid& a, const FieldGrid& b) {
  return are_same(a.latitudes, b.latitudes) && are_same(a.longitudes, b.longitudes);
}

std::string grid_text(const FieldGrid& grid) {
  return fmt::format("{} latitudes from {:g} to {:g} and {} longitudes from {:g} to {:g}", grid.latitudes.size(),
                     grid.latitudes.front(), grid.latitudes.back(), grid.longitudes.size(), grid.longitudes.front(),
                     grid.longitudes.back());
}

bool calendars_agree(Calendar a, const std::vector<int64_t>& times_of_a, Calendar b,
                     const std::vector<int64_t>& times_of_b) {
  return a == b || times_of_a.empty() || times_of_b.empty() ||
         (has_gregorian_rule(a, times_of_a) && has_gregorian_rule(b, times_of_b));
}

ScannedFields scan_fields(const std::vector<std::filesystem::path>& files, const std::vector<DimensionChoice>& choices,
                          const std::function<void(size_t)>& look) {
  ScannedFields scanned;
  std::vector<std::string> problems;
  std::set<std::string> dimensions;
  FileContents first;
  for (const std::filesystem::path& path : files) {
    look(scanned.files.size());
    try {
      const std::unique_ptr<FieldFile> file = open_field_file(path, choices);
      const FileContents& contents = file->contents();
      dimensions.insert(contents.other_dimensions.begin(), contents.other_dimensions.end());
      if (contents.variables.empty()) {
        for (const LeftOutVariable& one : contents.left_out) problems.push_back(one.why);
        continue;
      }
      if (first.path.empty()) first = contents;
      // Files without times have no calendar.
      if (first.times.empty() && !contents.times.empty())
        first.times = contents.times, first.calendar = contents.calendar;
      if (std::string problem = problem_with_file(contents, first); !problem.empty()) problems.push_back(problem);
      scanned.files.push_back({path, contents.variables, contents.left_out, axis_of(scanned.axes, contents.times)});
    } catch (const UserError& error) {
      problems.emplace_back(error.what());
    }
  }
  for (const DimensionChoice& choice : choices) {
    if (dimensions.contains(choice.dimension) || !problems.empty()) continue;
    problems.push_back(fmt::format(
        "--select {}: no variable of the files has such a dimension besides those of the "
        "grid, times and levels; {}",
        choice.dimension,
        dimensions.empty() ? "leave --select out" : fmt::format("there are {}", fmt::join(dimensions, ", "))));
  }
  throw_problems(problems, "input files that cannot be used");
  take_constants_with_a_time(scanned);
  scanned.grid = first.grid;
  scanned.calendar = first.calendar;
  return scanned;
}

std::string name_at_level(const std::string& variable, double level) { return fmt::format("{}_{:g}", variable, level); }

std::vector<std::string> field_names(const FileVariable& variable) {
  if (variable.levels.empty()) return {variable.name};
  std::vector<std::string> names;
  for (const double level : variable.levels) names.push_back(name_at_level(variable.name, level));
  return names;
}

std::vector<KnownVariable> variables_of(const ScannedFields& scanned) {
  std::vector<KnownVariable> known;
  std::map<std::string, size_t> numbers;
  for (size_t file = 0; file < scanned.files.size(); ++file) {
    for (const FileVariable& variable : scanned.files[file].variables) {
      const auto [at, is_first] = numbers.emplace(variable.name, known.size());
      if (is_first) known.push_back({.first = variable, .first_file = file});
      std::vector<double>& levels = known[at->second].levels;
      known[at->second].without_levels |= variable.levels.empty();
      for (const double level : variable.levels) {
        const auto place = std::ranges::lower_bound(levels, level - 1e-6 * std::abs(level));
        if (place == levels.end() || *place > level + 1e-6 * std::abs(level)) levels.insert(place, level);
      }
    }
  }
  return known;
}

}  // namespace terrace::data
