// Dates of the calendars that CF names, and instants as seconds. An instant counts the seconds since 1970-01-01 00:00
// in its own calendar, so that instants of different calendars cannot be compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace terrace::data {

enum class Calendar { standard, proleptic_gregorian, julian, noleap, all_leap, day_360 };

// Returns the calendar of any name that CF has for it, such as gregorian or 365_day. Throws UserError for other names.
Calendar calendar_named(std::string_view name);
// Returns the name that CF prefers.
std::string_view name_of(Calendar calendar);

struct Date {
  int64_t year = 1970;
  int64_t month = 1, day = 1;  // counted from 1
  int64_t second = 0;          // of the day
  bool operator==(const Date&) const = default;
};

int64_t instant_of(Calendar calendar, const Date& date);
Date date_of(Calendar calendar, int64_t instant);
int64_t days_in_month(Calendar calendar, int64_t year, int64_t month);
// Returns an instant as text, such as "1982-01-16T20:00:00".
std::string text_of(Calendar calendar, int64_t instant);

// Returns the part of its year that has passed at an instant, 0 to 1.
double part_of_year(Calendar calendar, int64_t instant);
// Returns the day's number in a year that has all days of the calendar, counted from 0: 1 March is 60 in every
// Gregorian year.
int64_t day_of_longest_year(Calendar calendar, const Date& date);

// Returns the first and last second of a date that is written as year, month, day, hour, minute or second: "1979",
// "1979-02", "1979-02-01T06". Throws UserError for what is no date of the calendar.
std::pair<int64_t, int64_t> instants_of(Calendar calendar, std::string_view text);

// Returns the instant so many calendar months later, or, where `months` is below 0, before; the day of its date is at
// most the last one of its month.
int64_t months_after(Calendar calendar, int64_t instant, int64_t months);

// Units of time as CF writes them: "hours since 1900-01-01 00:00:00".
struct TimeUnits {
  double seconds = 1;     // of one unit
  int64_t reference = 0;  // the instant of 0
  // The calendar months of one unit of months or years, whose lengths differ; 0: the unit has a fixed length. For units
  // of months or years `seconds` is that of the mean, 30.4375 days a month.
  int64_t months = 0;
};

// Returns the instant of a number of units. Whole months and years lie on the same day of their months, as the programs
// that write such times mean them, and a fraction is the part of the way from one to the next: 0.5 is the middle of a
// month.
int64_t instant_of(Calendar calendar, const TimeUnits& units, double value);

// Reads units of time. Throws UserError, without the name of a file, for units that are not known.
TimeUnits time_units(Calendar calendar, std::string_view text);

}  // namespace terrace::data
