// Dates of every calendar are those of cftime and of the almanac, and units of time and of variables are read as files
// write them.
#include <gmock/gmock.h>

#include "terrace/data/fields/calendar.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/fields/unit_definitions.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

constexpr int64_t day = 86400;
constexpr std::array<Calendar, 6> all_calendars = {Calendar::standard, Calendar::proleptic_gregorian,
                                                   Calendar::julian,   Calendar::noleap,
                                                   Calendar::all_leap, Calendar::day_360};

TEST(FieldsCalendar, CountsDaysOfEveryCalendar) {
  EXPECT_EQ(instant_of(Calendar::standard, {.year = 2000, .month = 3, .day = 1}), 11017 * day);
  EXPECT_EQ(instant_of(Calendar::noleap, {.year = 2000, .month = 3, .day = 1}), (30 * 365 + 59) * day);
  EXPECT_EQ(instant_of(Calendar::all_leap, {.year = 1971}), 366 * day);
  EXPECT_EQ(instant_of(Calendar::day_360, {.year = 1971, .month = 2, .day = 30}), (360 + 59) * day);
  EXPECT_EQ(instant_of(Calendar::day_360, {.year = 1969, .month = 12, .day = 30, .second = 86399}), -1);
  // The Julian 1 January 1970 was 14 January in the Gregorian calendar.
  EXPECT_EQ(instant_of(Calendar::julian, {.year = 1900, .month = 3, .day = 1}), -(70 * 365 + 17 - 59) * day);
  // The day after 4 October 1582 was the 15th.
  EXPECT_EQ(instant_of(Calendar::standard, {.year = 1582, .month = 10, .day = 15}) -
                instant_of(Calendar::standard, {.year = 1582, .month = 10, .day = 4}),
            day);
  EXPECT_EQ(instant_of(Calendar::proleptic_gregorian, {.year = 1582, .month = 10, .day = 15}) -
                instant_of(Calendar::proleptic_gregorian, {.year = 1582, .month = 10, .day = 4}),
            11 * day);
  EXPECT_EQ(instant_of(Calendar::standard, {.year = 1583}), instant_of(Calendar::proleptic_gregorian, {.year = 1583}));
  // JDN 2299160 and JDN 0 by 2440588 of 1970-01-01.
  EXPECT_EQ(instant_of(Calendar::standard, {.year = 1582, .month = 10, .day = 4}), (2299160 - 2440588) * day);
  EXPECT_EQ(instant_of(Calendar::standard, {.year = -4712}), -2440588 * day);
}

TEST(FieldsCalendar, EveryDayHasItsDateAgain) {
  for (const Calendar calendar : all_calendars) {
    Date before = date_of(calendar, -800'000 * day - 1);
    for (int64_t number = -800'000; number<60'000; number += number> - 142'000 && number < -141'000 ? 1 : 97) {
      const Date date = date_of(calendar, number * day + 5);
      ASSERT_EQ(instant_of(calendar, date), number * day + 5) << name_of(calendar) << " " << number;
      ASSERT_GE(std::tuple(date.year, date.month, date.day), std::tuple(before.year, before.month, before.day));
      ASSERT_LE(date.day, days_in_month(calendar, date.year, date.month));
      before = date;
    }
  }
  EXPECT_EQ(text_of(Calendar::standard, -1), "1969-12-31T23:59:59");
}

TEST(FieldsCalendar, YearsPassFromZeroToOne) {
  EXPECT_EQ(part_of_year(Calendar::standard, 0), 0);
  EXPECT_EQ(part_of_year(Calendar::day_360, 180 * day), 0.5);
  EXPECT_EQ(part_of_year(Calendar::noleap, 73 * day), 0.2);
  EXPECT_EQ(day_of_longest_year(Calendar::standard, {.year = 1999, .month = 3, .day = 1}), 60);
  EXPECT_EQ(day_of_longest_year(Calendar::standard, {.year = 2000, .month = 3, .day = 1}), 60);
  EXPECT_EQ(day_of_longest_year(Calendar::noleap, {.year = 1999, .month = 3, .day = 1}), 59);
}

TEST(FieldsCalendar, DatesMeanAllOfTheirTime) {
  const auto seconds = [](const char* text) {
    const auto [first, last] = instants_of(Calendar::standard, text);
    return last - first + 1;
  };
  EXPECT_EQ(seconds("2000"), 366 * day);
  EXPECT_EQ(seconds("1999-02"), 28 * day);
  EXPECT_EQ(seconds("1999-02-03"), day);
  EXPECT_EQ(seconds("1999-02-03T06"), 3600);
  EXPECT_EQ(seconds("1999-02-03T06:30"), 60);
  EXPECT_EQ(seconds("1999-02-03 06:30:10"), 1);
  EXPECT_EQ(instants_of(Calendar::standard, "1970-01-02").first, day);
  for (const char* wrong :
       {"", "spring", "1999-13", "1999-02-29", "1999-02-03T24", "1999-02-03T06:30:10.5", "99/1/2"}) {
    EXPECT_THAT(user_error([&] { instants_of(Calendar::standard, wrong); }), HasSubstr("write a date such as"))
        << wrong;
  }
  EXPECT_THAT(user_error([] { instants_of(Calendar::noleap, "2000-02-29"); }),
              HasSubstr("day 29 of a month that has 28 in the calendar noleap"));
}

TEST(FieldsCalendar, UnitsOfTimeAreThoseOfCf) {
  const auto reference = [](const char* text) { return time_units(Calendar::standard, text).reference; };
  EXPECT_EQ(reference("hours since 1970-01-02 00:00:00"), day);
  EXPECT_EQ(reference("hours since 1970-1-2 6:00:0.0"), day + 6 * 3600);
  EXPECT_EQ(reference("hour since 1970-01-02T06:00:00Z"), day + 6 * 3600);
  EXPECT_EQ(reference("DAYS since 1970-01-02"), day);
  EXPECT_EQ(reference("seconds since 1970-01-02 00:00 UTC"), day);
  EXPECT_EQ(reference("minutes since 1970-01-02 00:00:00 +00:00"), day);
  EXPECT_EQ(time_units(Calendar::standard, "minutes since 1970-01-01").seconds, 60);
  EXPECT_EQ(time_units(Calendar::day_360, "months since 1970-01-01").seconds, 30 * day);
  EXPECT_EQ(time_units(Calendar::day_360, "months since 1970-01-01").months, 0);
  EXPECT_EQ(time_units(Calendar::standard, "months since 1970-01-01").months, 1);
  EXPECT_EQ(time_units(Calendar::standard, "years since 1970-01-01").months, 12);
  EXPECT_EQ(time_units(Calendar::standard, "years since 1970-01-01").seconds, 365.25 * day);
  for (const char* wrong : {"", "K", "hours", "hours since yesterday", "fortnights since 1970-01-01",
                            "hours since 1970-01-01 00:00:00 +05:00", "hours since 1970-02-30"}) {
    EXPECT_THAT(user_error([&] { time_units(Calendar::standard, wrong); }), HasSubstr("the times have units")) << wrong;
  }
  EXPECT_EQ(calendar_named("GREGORIAN"), Calendar::standard);
  EXPECT_EQ(calendar_named("365_day"), Calendar::noleap);
  EXPECT_THAT(user_error([] { calendar_named("mayan"); }), HasSubstr("calendar \"mayan\" is not known"));
}

// A month before the year 1 has the number -1 of months from the year 0 on.
TEST(Calendar, MonthsAreAddedWithinTheirCalendar) {
  const auto after = [](Calendar calendar, const char* from, int64_t months) {
    return text_of(calendar, months_after(calendar, instants_of(calendar, from).first, months)).substr(0, 13);
  };
  EXPECT_EQ(after(Calendar::standard, "2000-01-31T06", 1), "2000-02-29T06");
  EXPECT_EQ(after(Calendar::noleap, "2000-01-31T06", 1), "2000-02-28T06");
  EXPECT_EQ(after(Calendar::day_360, "2000-01-30", 13), "2001-02-30T00");
  EXPECT_EQ(after(Calendar::standard, "2000-03-31", -13), "1999-02-28T00");
  EXPECT_EQ(after(Calendar::proleptic_gregorian, "0001-02-01", -14), "-001-12-01T00");
}

TEST(PhysicalUnits, OneUnitHasOneForm) {
  for (const char* same : {"m2 s-2", "m**2 s**-2", "m^2/s^2", "m2/s2", "m**2*s**-2", "m.m.s-2", "M**2 S**-2"}) {
    EXPECT_EQ(canonical_units(same), "m2 s-2") << same;
  }
  for (const char* one : {"", "1", "(0 - 1)", "fraction", "m/m", "kg kg**-1"})
    EXPECT_EQ(canonical_units(one), "1") << one;
  EXPECT_EQ(canonical_units("M/S"), "m s-1");
  EXPECT_EQ(canonical_units("Deg C"), "degC");
  EXPECT_EQ(canonical_units("degrees_celsius"), "degC");
  EXPECT_EQ(canonical_units("MB"), "hPa");
  EXPECT_EQ(canonical_units("W m**-2"), "W m-2");
  EXPECT_EQ(canonical_units("1/s"), "s-1");
  for (const char* unknown : {"blorb", "m**", "m2 s-2 x", "m+s", "?", "kg/(m2 s", "kg)", "degrees_north"}) {
    EXPECT_EQ(canonical_units(unknown), std::nullopt) << unknown;
  }
  for (const char* celsius : {"degree_C", "°C",
                              "\xb0"
                              "C",
                              "℃", "C", "Celsius"}) {
    EXPECT_EQ(canonical_units(celsius), "degC") << celsius;
  }
  for (const char* flux : {"kg/(m2 s)", "kg/(m^2 s)", "kg m⁻² s⁻¹", "kg·m-2·s-1", "1/(m2 s/kg)", "(kg/m2)/s"}) {
    EXPECT_EQ(canonical_units(flux), "kg m-2 s-1") << flux;
  }
  EXPECT_EQ(canonical_units("µg/m³"), canonical_units("ug m-3"));
  EXPECT_EQ(hectopascals("Pa"), 0.01);
  EXPECT_EQ(hectopascals("millibars"), 1);
  EXPECT_EQ(hectopascals("m"), std::nullopt);
}

TEST(PhysicalUnits, UnitsThatMeanTheSameAreTheSame) {
  if (!unit_definition("m")) GTEST_SKIP() << "built without udunits2";
  for (const auto& [a, b] : std::vector<std::pair<const char*, const char*>>{{"1e-3", "g/kg"},
                                                                             {"0.001", "10^-3"},
                                                                             {"W m-2", "J/(m2 s)"},
                                                                             {"mb", "100 Pa"},
                                                                             {"nautical_mile", "1852 m"},
                                                                             {"umol kg-1", "1e-6 mol kg-1"},
                                                                             {"%", "1e-2"}}) {
    EXPECT_TRUE(are_same_units(a, b)) << a << " " << b;
  }
  for (const auto& [a, b] : std::vector<std::pair<const char*, const char*>>{{"K", "degC"},
                                                                             {"hPa", "Pa"},
                                                                             {"1e-3", "1"},
                                                                             {"Sv", "m2 s-2"},
                                                                             {"blorb", "blorb"},
                                                                             {"mm/day", "kg m-2 s-1"}}) {
    EXPECT_FALSE(are_same_units(a, b)) << a << " " << b;
  }
}

}  // namespace
}  // namespace terrace::data
