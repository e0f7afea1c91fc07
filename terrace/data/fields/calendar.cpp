// Counts days of calendars by the numbers of their first days of years.
#include "terrace/data/fields/calendar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"

namespace terrace::data {
namespace {

constexpr int64_t day_seconds = 86400;

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

bool is_julian_leap(int64_t year) { return floor_divide(year, 4) * 4 == year; }
bool is_gregorian_leap(int64_t year) {
  return is_julian_leap(year) && (floor_divide(year, 100) * 100 != year || floor_divide(year, 400) * 400 == year);
}

bool is_leap(Calendar calendar, int64_t year) {
  switch (calendar) {
    case Calendar::standard:
      return year < 1583 ? is_julian_leap(year) : is_gregorian_leap(year);
    case Calendar::proleptic_gregorian:
      return is_gregorian_leap(year);
    case Calendar::julian:
      return is_julian_leap(year);
    case Calendar::all_leap:
      return true;
    case Calendar::noleap:
    case Calendar::day_360:
      return false;
  }
  return false;
}

constexpr std::array<int64_t, 12> month_days = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

int64_t month_length(Calendar calendar, int64_t year, int64_t month) {
  if (calendar == Calendar::day_360) return 30;
  return month_days[static_cast<size_t>(month - 1)] + (month == 2 && is_leap(calendar, year) ? 1 : 0);
}

// The number of 1 January, counted from a day that is the same one in all years of the calendar.
int64_t first_day(Calendar calendar, int64_t year) {
  const int64_t before = year - 1;
  const int64_t julian = 365 * year + floor_divide(before, 4);
  // 1 January of the year 1 was two days earlier in the Julian calendar.
  const int64_t gregorian = julian - floor_divide(before, 100) + floor_divide(before, 400) + 2;
  switch (calendar) {
    case Calendar::standard:
      return year < 1583 ? julian : gregorian;
    case Calendar::proleptic_gregorian:
      return gregorian;
    case Calendar::julian:
      return julian;
    case Calendar::noleap:
      return 365 * year;
    case Calendar::all_leap:
      return 366 * year;
    case Calendar::day_360:
      return 360 * year;
  }
  return 0;
}

// In October 1582 the standard calendar left out 5 to 14.
bool is_behind_reform(Calendar calendar, int64_t year, int64_t month, int64_t day) {
  return calendar == Calendar::standard && year == 1582 && (month > 10 || (month == 10 && day > 4));
}

int64_t day_number(Calendar calendar, int64_t year, int64_t month, int64_t day) {
  int64_t number = first_day(calendar, year);
  for (int64_t m = 1; m < month; ++m) number += month_length(calendar, year, m);
  return number + day - 1 - (is_behind_reform(calendar, year, month, day) ? 10 : 0);
}

int64_t epoch_day(Calendar calendar) { return first_day(calendar, 1970); }

const std::map<std::string, Calendar, std::less<>>& calendar_names() {
  static const std::map<std::string, Calendar, std::less<>> names = {
      {"standard", Calendar::standard},
      {"gregorian", Calendar::standard},
      {"proleptic_gregorian", Calendar::proleptic_gregorian},
      {"julian", Calendar::julian},
      {"noleap", Calendar::noleap},
      {"365_day", Calendar::noleap},
      {"all_leap", Calendar::all_leap},
      {"366_day", Calendar::all_leap},
      {"360_day", Calendar::day_360}};
  return names;
}

// The parts of a date such as 1979-01-31T06:30:00; `is_date` is false where the text is no date.
struct DateParts {
  std::vector<int64_t> numbers = {};
  std::string rest = {};  // behind the last number
  bool is_date = false;
};

DateParts read_parts(std::string_view text) {
  DateParts parts;
  constexpr std::string_view separators = "--T::";
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (parts.numbers.size() < 6) {
    int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (!parts.numbers.empty() && number < 0)) return parts;
    parts.numbers.push_back(number);
    at = next;
    if (parts.numbers.size() == 6 || at == end) break;
    const char separator = separators[parts.numbers.size() - 1];
    const bool fits = *at == separator || (separator == 'T' && (*at == ' ' || *at == 't'));
    if (!fits) break;
    // A time zone may follow the day.
    if (at + 1 == end || std::isdigit(static_cast<unsigned char>(at[1])) == 0) break;
    ++at;
  }
  parts.rest = std::string(at, end);
  parts.is_date = true;
  return parts;
}

std::string problem_with(Calendar calendar, const std::vector<int64_t>& numbers) {
  const auto part = [&](size_t i, int64_t otherwise) { return i < numbers.size() ? numbers[i] : otherwise; };
  if (part(1, 1) < 1 || part(1, 1) > 12) return fmt::format("month {}", part(1, 1));
  const int64_t days = month_length(calendar, numbers[0], part(1, 1));
  if (part(2, 1) < 1 || part(2, 1) > days) {
    return fmt::format("day {} of a month that has {} in the calendar {}", part(2, 1), days, name_of(calendar));
  }
  if (part(3, 0) > 23 || part(4, 0) > 59 || part(5, 0) > 59) return "a time that no day has";
  return "";
}

Date date_of_parts(const std::vector<int64_t>& numbers) {
  const auto part = [&](size_t i, int64_t otherwise) { return i < numbers.size() ? numbers[i] : otherwise; };
  return {numbers[0], part(1, 1), part(2, 1), (part(3, 0) * 60 + part(4, 0)) * 60 + part(5, 0)};
}

// Returns whether the rest of a date means UTC: it has at most a fraction of a second that is 0 and a word for UTC.
bool is_utc(std::string rest) {
  std::erase(rest, ' ');
  if (rest.starts_with('.')) {
    const size_t end = rest.find_first_not_of('0', 1);
    rest = end == std::string::npos ? "" : rest.substr(end);
  }
  const std::string zone = lower_case(rest);
  return zone.empty() || zone == "utc" || zone == "z" || zone == "gmt" || zone == "+00:00" || zone == "+0:00" ||
         zone == "00:00" || zone == "+0000" || zone == "-00:00";
}

int64_t months_of_unit(const std::string& unit) {
  if (unit == "month" || unit == "months") return 1;
  return unit == "year" || unit == "years" || unit == "yr" || unit == "yrs" ? 12 : 0;
}

// Returns the seconds of a unit; 0 for units that are not known.
double seconds_of_unit(Calendar calendar, const std::string& unit) {
  static const std::map<std::string, double> seconds = {
      {"s", 1},       {"sec", 1},      {"secs", 1},      {"second", 1},    {"seconds", 1},
      {"min", 60},    {"mins", 60},    {"minute", 60},   {"minutes", 60},  {"h", 3600},
      {"hr", 3600},   {"hrs", 3600},   {"hour", 3600},   {"hours", 3600},  {"d", 86400},
      {"day", 86400}, {"days", 86400}, {"week", 604800}, {"weeks", 604800}};
  const auto found = seconds.find(unit);
  if (found != seconds.end()) return found->second;
  const double days_in_unit_month = calendar == Calendar::day_360 ? 30 : 30.4375;
  return static_cast<double>(months_of_unit(unit) * day_seconds) * days_in_unit_month;
}

}  // namespace

Calendar calendar_named(std::string_view name) {
  const auto found = calendar_names().find(lower_case(name));
  if (found != calendar_names().end()) return found->second;
  throw UserError::of(
      "the calendar \"{}\" is not known; standard, proleptic_gregorian, julian, noleap, all_leap and 360_day are",
      name);
}

std::string_view name_of(Calendar calendar) {
  constexpr std::array<std::string_view, 6> names = {"standard", "proleptic_gregorian", "julian", "noleap", "all_leap",
                                                     "360_day"};
  return names[static_cast<size_t>(calendar)];
}

int64_t instant_of(Calendar calendar, const Date& date) {
  return (day_number(calendar, date.year, date.month, date.day) - epoch_day(calendar)) * day_seconds + date.second;
}

Date date_of(Calendar calendar, int64_t instant) {
  const int64_t day = floor_divide(instant, day_seconds) + epoch_day(calendar);
  int64_t year = floor_divide(day, day < 0 ? 360 : 366), month = 1;
  while (day_number(calendar, year + 1, 1, 1) <= day) ++year;
  while (month < 12 && day_number(calendar, year, month + 1, 1) <= day) ++month;
  int64_t of_month = day - day_number(calendar, year, month, 1) + 1;
  if (calendar == Calendar::standard && year == 1582 && month == 10 && of_month > 4) of_month += 10;
  return {year, month, of_month, instant - floor_divide(instant, day_seconds) * day_seconds};
}

int64_t days_in_month(Calendar calendar, int64_t year, int64_t month) { return month_length(calendar, year, month); }

int64_t months_after(Calendar calendar, int64_t instant, int64_t months) {
  Date date = date_of(calendar, instant);
  const int64_t all = date.year * 12 + date.month - 1 + months;
  date.year = floor_divide(all, 12);
  date.month = all - date.year * 12 + 1;
  date.day = std::min(date.day, days_in_month(calendar, date.year, date.month));
  return instant_of(calendar, date);
}

int64_t instant_of(Calendar calendar, const TimeUnits& units, double value) {
  if (units.months == 0) return units.reference + std::llround(value * units.seconds);
  const auto whole = static_cast<int64_t>(std::floor(value));
  const int64_t from = months_after(calendar, units.reference, whole * units.months);
  const int64_t to = months_after(calendar, units.reference, (whole + 1) * units.months);
  return from + std::llround((value - static_cast<double>(whole)) * static_cast<double>(to - from));
}

std::string text_of(Calendar calendar, int64_t instant) {
  const Date date = date_of(calendar, instant);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", date.year, date.month, date.day, date.second / 3600,
                     date.second / 60 % 60, date.second % 60);
}

double part_of_year(Calendar calendar, int64_t instant) {
  const int64_t year = date_of(calendar, instant).year;
  const int64_t begin = instant_of(calendar, {.year = year}), end = instant_of(calendar, {.year = year + 1});
  return static_cast<double>(instant - begin) / static_cast<double>(end - begin);
}

int64_t day_of_longest_year(Calendar calendar, const Date& date) {
  const Calendar longest =
      calendar == Calendar::day_360 || calendar == Calendar::noleap ? calendar : Calendar::all_leap;
  return day_number(longest, 2000, date.month, date.day) - first_day(longest, 2000);
}

std::pair<int64_t, int64_t> instants_of(Calendar calendar, std::string_view text) {
  const DateParts parts = read_parts(text);
  std::string problem = parts.is_date && parts.rest.empty() ? problem_with(calendar, parts.numbers) : "no date";
  if (!problem.empty()) {
    throw UserError::of("\"{}\" is {}; write a date such as 1979, 1979-01, 1979-01-31 or 1979-01-31T06", text, problem);
  }
  Date last = date_of_parts(parts.numbers);
  const int64_t first = instant_of(calendar, last);
  switch (parts.numbers.size()) {
    case 1:
      last.month = 12;
      [[fallthrough]];
    case 2:
      last.day = month_length(calendar, last.year, last.month);
      [[fallthrough]];
    case 3:
      last.second = day_seconds - 1;
      break;
    case 4:
      last.second += 3599;
      break;
    case 5:
      last.second += 59;
      break;
    default:
      break;
  }
  return {first, instant_of(calendar, last)};
}

TimeUnits time_units(Calendar calendar, std::string_view text) {
  const std::string lower = lower_case(text);
  const size_t since = lower.find(" since ");
  if (since == std::string::npos) {
    throw UserError::of("the times have units \"{}\"; units such as \"hours since 1900-01-01 00:00:00\" are read",
                        text);
  }
  std::string unit = lower.substr(0, since);
  std::erase(unit, ' ');
  const double seconds = seconds_of_unit(calendar, unit);
  std::string_view date = text.substr(since + 7);
  while (date.starts_with(' ')) date.remove_prefix(1);
  const DateParts parts = read_parts(date);
  const bool is_read = seconds > 0 && parts.is_date && parts.numbers.size() >= 3 && is_utc(parts.rest) &&
                       problem_with(calendar, parts.numbers).empty();
  if (!is_read) {
    throw UserError::of(
        "the times have units \"{}\", which are not known; seconds, minutes, hours, days, months or years since a date "
        "in UTC of the calendar {} are",
        text, name_of(calendar));
  }
  const int64_t months = calendar == Calendar::day_360 ? 0 : months_of_unit(unit);
  return {seconds, instant_of(calendar, date_of_parts(parts.numbers)), months};
}

}  // namespace terrace::data
