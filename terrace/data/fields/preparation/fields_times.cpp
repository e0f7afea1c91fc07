// Counts which variable has which time.
#include "terrace/data/fields/preparation/fields_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

constexpr int64_t day_of_seconds = 86400;

// Whether a file has a variable of the dataset at a time: [variables][times].
using Presence = std::vector<std::vector<bool>>;

int64_t number_of(const std::vector<int64_t>& times, int64_t time) {
  const auto found = std::ranges::lower_bound(times, time);
  return found != times.end() && *found == time ? found - times.begin() : -1;
}

std::vector<int64_t> all_times(const FieldsPlan& plan) {
  std::set<size_t> used;
  for (const FieldPiece& piece : plan.pieces) used.insert(plan.axis_of_file[piece.file]);
  std::vector<int64_t> times;
  for (const size_t axis : used) times.insert(times.end(), plan.axes[axis].begin(), plan.axes[axis].end());
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// Returns the file, other than that of the piece, which has the variable at this time.
std::string other_file(const FieldsPlan& plan, const FieldPiece& than, int64_t output, int64_t time) {
  for (const FieldPiece& piece : plan.pieces) {
    if (&piece == &than || std::ranges::find(piece.outputs, output) == piece.outputs.end()) continue;
    const std::vector<int64_t>& times = plan.axes[plan.axis_of_file[piece.file]];
    if (std::ranges::find(times, time) != times.end()) return plan.files[piece.file].string();
  }
  return plan.files[than.file].string();
}

Presence presence_of(const FieldsPlan& plan, const std::vector<int64_t>& times) {
  const FieldsDescription& description = plan.description;
  Presence present(description.variables.size(), std::vector<bool>(times.size()));
  std::vector<std::string> problems;
  for (const FieldPiece& piece : plan.pieces) {
    for (const int64_t output : piece.outputs) {
      if (output < 0) continue;
      std::vector<bool>& of_variable = present[static_cast<size_t>(output)];
      bool is_reported = false;
      for (const int64_t time : plan.axes[plan.axis_of_file[piece.file]]) {
        const auto at = static_cast<size_t>(number_of(times, time));
        if (of_variable[at] && !is_reported) {
          problems.push_back(fmt::format("{} and {} both have {} for {}; leave one of them out",
                                         other_file(plan, piece, output, time), plan.files[piece.file].string(),
                                         description.variables[static_cast<size_t>(output)].name,
                                         text_of(description.calendar, time)));
          is_reported = true;
        }
        of_variable[at] = true;
      }
    }
  }
  throw_problems(problems, "times that files have twice");
  return present;
}

// Returns a file that has the time.
std::string file_with(const FieldsPlan& plan, int64_t time) {
  for (const FieldPiece& piece : plan.pieces) {
    const std::vector<int64_t>& times = plan.axes[plan.axis_of_file[piece.file]];
    if (std::ranges::find(times, time) != times.end()) return plan.files[piece.file].string();
  }
  return "";
}

void check_complete(const FieldsPlan& plan, const std::vector<int64_t>& times, const Presence& present) {
  std::vector<std::string> problems;
  for (size_t variable = 0; variable < present.size(); ++variable) {
    const auto missing = static_cast<uint64_t>(std::ranges::count(present[variable], false));
    if (missing == 0) continue;
    const auto first = std::ranges::find(present[variable], false) - present[variable].begin();
    const int64_t time = times[static_cast<size_t>(first)];
    problems.push_back(fmt::format("no file has {} for {}{}, which {} has for others; give its file, or --allow-gaps",
                                   plan.description.variables[variable].name, text_of(plan.description.calendar, time),
                                   missing > 1 ? fmt::format(" and {} later", counted(missing - 1, "time")) : "",
                                   file_with(plan, time)));
  }
  throw_problems(problems, "variables that lack times");
}

// Returns the largest number of months, such as 1, 3 of seasons or 12 of years, of which every time lies a multiple
// after the one before, by its month and about by its days; 0 where there is none.
int64_t step_months(Calendar calendar, const std::vector<int64_t>& times) {
  int64_t step = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const Date date = date_of(calendar, times[i]), before = date_of(calendar, times[i - 1]);
    const int64_t apart = (date.year - before.year) * 12 + date.month - before.month;
    const int64_t seconds = times[i] - times[i - 1];
    if (apart < 1 || seconds < (apart * 30 - 3) * day_of_seconds || seconds > (apart * 31 + 2) * day_of_seconds) {
      return 0;
    }
    step = std::gcd(step, apart);
  }
  return step;
}

// Returns whether all times lie on the same day of their months and time of the day.
bool are_on_one_day(Calendar calendar, const std::vector<int64_t>& times) {
  const Date first = date_of(calendar, times.front());
  return std::ranges::all_of(times, [&](int64_t time) {
    const Date date = date_of(calendar, time);
    return date.day == first.day && date.second == first.second;
  });
}

TimeStep step_of(const FieldsPlan& plan, const std::vector<int64_t>& times) {
  if (times.size() < 2) return {};
  const Calendar calendar = plan.description.calendar;
  TimeStep step{.seconds = times[1] - times[0]};
  for (size_t i = 1; i < times.size(); ++i) step.seconds = std::min(step.seconds, times[i] - times[i - 1]);
  if (const int64_t months = step_months(calendar, times); months > 0) {
    // Times 60 days apart may lie two months apart as well.
    const bool are_neighbours = step.seconds < 40 * day_of_seconds;
    bool has_one_length = true;
    for (size_t i = 1; i < times.size(); ++i) has_one_length &= (times[i] - times[i - 1]) % step.seconds == 0;
    if (are_neighbours || !has_one_length || are_on_one_day(calendar, times)) return {.months = months};
  }
  for (size_t i = 1; i < times.size(); ++i) {
    if ((times[i] - times[i - 1]) % step.seconds == 0) continue;
    throw UserError::of(
        "{}: {} lies {} s behind {}, which is no multiple of the {} between other times; prepare files of one step",
        file_with(plan, times[i]), text_of(calendar, times[i]), times[i] - times[i - 1],
        text_of(calendar, times[i - 1]), step.text());
  }
  return step;
}

void check_gaps(const FieldsPlan& plan, const std::vector<int64_t>& times, const TimeStep& step) {
  const Calendar calendar = plan.description.calendar;
  std::vector<std::string> problems;
  for (size_t i = 1; i < times.size(); ++i) {
    const int64_t apart = step.between(calendar, times[i - 1], times[i]).value_or(0);
    if (apart == 1) continue;
    problems.push_back(fmt::format(
        "{} missing between {} ({}) and {} ({}), where the step is {}; give the files that "
        "have them, or --allow-gaps",
        counted(static_cast<uint64_t>(apart - 1), "time is", "times are"), text_of(calendar, times[i - 1]),
        file_with(plan, times[i - 1]), text_of(calendar, times[i]), file_with(plan, times[i]), step.text()));
  }
  throw_problems(problems, "gaps between times");
}

}  // namespace

void place_times(FieldsPlan& plan, bool allow_gaps) {
  std::vector<int64_t> times = all_times(plan);
  const Presence present = presence_of(plan, times);
  if (allow_gaps) {
    std::vector<int64_t> complete;
    for (size_t i = 0; i < times.size(); ++i) {
      if (std::ranges::all_of(present, [&](const auto& of_variable) { return of_variable[i]; })) {
        complete.push_back(times[i]);
      }
    }
    times = complete;
    if (times.empty()) throw UserError("no time occurs in the files of every variable; prepare fewer variables");
  } else {
    check_complete(plan, times, present);
  }
  const TimeStep step = step_of(plan, times);
  if (!allow_gaps) check_gaps(plan, times, step);
  for (std::vector<int64_t>& axis : plan.axes) {
    for (int64_t& time : axis) time = number_of(times, time);
  }
  plan.description.times = std::move(times);
  plan.description.step = step;
}

void place_splits(FieldsDescription& description,
                  const std::map<std::string, std::pair<std::string, std::string>>& dates) {
  const std::vector<int64_t>& times = description.times;
  const Calendar calendar = description.calendar;
  for (const auto& [name, range] : dates) {
    const int64_t from = instants_of(calendar, range.first).first, to = instants_of(calendar, range.second).second;
    const TimeSplit split{range.first, range.second, std::ranges::lower_bound(times, from) - times.begin(),
                          std::ranges::upper_bound(times, to) - times.begin()};
    if (split.count() <= 0) {
      throw UserError::of("--{} {} {} has no time; the files have times from {} to {}", name, range.first, range.second,
                          text_of(calendar, times.front()), text_of(calendar, times.back()));
    }
    for (const auto& [other, placed] : description.splits) {
      if (split.first_time >= placed.end_time || placed.first_time >= split.end_time) continue;
      throw UserError::of(
          "--{} {} {} and --{} {} {} have times in common; nothing may be judged by what it was trained "
          "on",
          other, placed.from, placed.to, name, range.first, range.second);
    }
    description.splits[name] = split;
  }
}

}  // namespace terrace::data
