// Times of fields: calendar months, seasons and years.
#include <gmock/gmock.h>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/fields/scores/forecast_times.h"
#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

double ramp(double time, double, double latitude, double longitude) { return time + latitude / 100 + longitude / 1e5; }

TestFile file_at(const std::vector<double>& times, const std::string& units, const std::string& calendar = "standard") {
  return {.times = times, .time_units = units, .calendar = calendar, .variables = {{.name = "t", .value = ramp}}};
}

// Days since 1970-01-01 of dates of the calendar.
std::vector<double> days_of(const std::vector<Date>& dates, Calendar calendar = Calendar::standard) {
  std::vector<double> days;
  for (const Date& date : dates) days.push_back(static_cast<double>(instant_of(calendar, date)) / 86400);
  return days;
}

class FieldsTimes : public testing::Test {
 protected:
  FieldsDescription prepared(const std::vector<double>& times, const std::string& units = "days since 1970-01-01",
                             const std::string& calendar = "standard", const Flags& flags = {}) const {
    prepare_fields({file_at(times, units, calendar).write(folder_ / "in.nc")}, folder_ / "p", flags);
    return FieldsDataset(folder_ / "p").description();
  }

  TemporaryFolder folder_;
};

TEST_F(FieldsTimes, YearsHaveAStepOfTwelveMonths) {
  // The middles of years, of which some have 366 days.
  const std::vector<Date> middles = {{1990, 7, 2}, {1991, 7, 2}, {1992, 7, 2}, {1993, 7, 2}, {1994, 7, 2}};
  const FieldsDescription all = prepared(days_of(middles));
  EXPECT_EQ(all.step, (TimeStep{.months = 12}));
  EXPECT_EQ(all.step.text(), "1 year");
  EXPECT_EQ(all.step.steps(*lead_seconds("1y")), 1);
  EXPECT_EQ(all.step.steps(*lead_seconds("36mo")), 3);
  EXPECT_EQ(all.step.steps(*lead_seconds("6mo")), std::nullopt);
  EXPECT_EQ(lead_text(all.step, 3), "3y");
  const FieldsDataset data(folder_ / "p");
  EXPECT_EQ(data.time_after(1, 2), 3);
  EXPECT_EQ(text_of(Calendar::standard, data.instant_after(4, 2)), "1996-07-02T00:00:00");
  // Years of one length too, so that leads are written in the same way in all calendars.
  const std::vector<Date> first = {{2000}, {2001}, {2002}};
  EXPECT_EQ(prepared(days_of(first, Calendar::noleap), "days since 1970-01-01", "noleap").step.months, 12);
  EXPECT_EQ(prepared(days_of(first, Calendar::day_360), "days since 1970-01-01", "360_day").step.months, 12);
  EXPECT_EQ(prepared(days_of({{1800}, {1810}, {1820}})).step.text(), "10 years");
}

TEST_F(FieldsTimes, SeasonsHaveAStepOfThreeMonths) {
  const std::vector<Date> middles = {{2000, 1, 15}, {2000, 4, 16}, {2000, 7, 16}, {2000, 10, 16}, {2001, 1, 15}};
  const FieldsDescription all = prepared(days_of(middles));
  EXPECT_EQ(all.step.months, 3);
  EXPECT_EQ(all.step.text(), "3 months");
  EXPECT_EQ(lead_text(all.step, 4), "12mo");
  EXPECT_EQ(prepared(days_of({{2000, 2, 29}, {2000, 5, 31}, {2000, 8, 31}, {2000, 11, 30}})).step.months, 3);
  // A season that lacks is a gap of months.
  const std::string gap = file_at(days_of({{2000, 1, 15}, {2000, 4, 16}, {2000, 10, 16}}), "days since 1970-01-01")
                              .write(folder_ / "gap.nc");
  EXPECT_THAT(refused_fields(folder_, {gap}),
              AllOf(HasSubstr("1 time is missing between 2000-04-16"), HasSubstr("the step is 3 months")));
}

TEST_F(FieldsTimes, DaysThatHappenToBeMonthsApartStayDays) {
  EXPECT_EQ(prepared({0, 62, 124}).step, (TimeStep{.seconds = 62 * 86400}));  // 1 January, 4 March, 5 May
  EXPECT_EQ(prepared({0, 90, 180, 270}).step, (TimeStep{.seconds = 90 * 86400}));
}

TEST_F(FieldsTimes, MonthsAndYearsSinceADateAreThoseOfTheCalendar) {
  const auto times = [&](const std::vector<double>& values, const std::string& units, const char* calendar) {
    std::vector<std::string> texts;
    const FieldsDescription all = prepared(values, units, calendar);
    for (const int64_t time : all.times) texts.push_back(text_of(all.calendar, time).substr(0, 13));
    return texts;
  };
  EXPECT_THAT(times({0, 1, 2, 3}, "months since 1999-12-31", "standard"),
              ElementsAre("1999-12-31T00", "2000-01-31T00", "2000-02-29T00", "2000-03-31T00"));
  // The middles of months, as the data library of the IRI has them.
  EXPECT_THAT(times({-0.5, 0.5, 1.5, 2.5}, "months since 2001-01-01", "standard"),
              ElementsAre("2000-12-16T12", "2001-01-16T12", "2001-02-15T00", "2001-03-16T12"));
  EXPECT_THAT(times({-0.5, 0.5, 1.5, 2.5}, "months since 2001-01-01", "360_day"),
              ElementsAre("2000-12-16T00", "2001-01-16T00", "2001-02-16T00", "2001-03-16T00"));
  EXPECT_THAT(times({0, 1, 2}, "years since 1850-01-01 00:00:00", "proleptic_gregorian"),
              ElementsAre("1850-01-01T00", "1851-01-01T00", "1852-01-01T00"));
  EXPECT_THAT(times({0.5, 1.5, 2.5}, "years since 1999-01-01", "noleap"),
              ElementsAre("1999-07-02T12", "2000-07-02T12", "2001-07-02T12"));
  EXPECT_EQ(read_fields_description(folder_ / "p.json").step.months, 12);
}

}  // namespace
}  // namespace terrace::data
