// Times of fields: calendar months, seasons and years, and files of one time each without a dimension of times.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "terrace/data/fields/fields_dataset.h"
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

  // A file with t [lat, lon] and a time without a dimension; `value` is t everywhere.
  std::string single(const std::string& name, double hours, double value, const std::string& variable = "t",
                     bool names_time = true) const {
    TestFile file{.times = {}, .variables = {{.name = variable, .dimensions = {"lat", "lon"}}}};
    file.variables[0].value = [value](double, double, double, double) { return value; };
    if (names_time) file.variables[0].texts["coordinates"] = "height time";
    const std::string path = file.write(folder_ / name);
    int id = 0;
    nc_open(path.c_str(), NC_WRITE, &id);
    nc_redef(id);
    add_scalar(id, "reference", "forecast_reference_time", -24);
    add_scalar(id, "time", "time", hours);
    nc_close(id);
    return path;
  }

  static void add_scalar(int id, const char* name, const std::string& standard_name, double value) {
    const std::string units = "hours since 2000-01-01";
    int variable = 0;
    nc_def_var(id, name, NC_DOUBLE, 0, nullptr, &variable);
    nc_put_att_text(id, variable, "units", units.size(), units.c_str());
    nc_put_att_text(id, variable, "standard_name", standard_name.size(), standard_name.c_str());
    nc_enddef(id);
    nc_put_var_double(id, variable, &value);
    nc_redef(id);
  }

  TemporaryFolder folder_;
};

TEST_F(FieldsTimes, YearsHaveAStepOfTwelveMonths) {
  // The middles of years, of which some have 366 days.
  const std::vector<Date> middles = {{1990, 7, 2}, {1991, 7, 2}, {1992, 7, 2}, {1993, 7, 2}, {1994, 7, 2}};
  const FieldsDescription all = prepared(days_of(middles));
  EXPECT_EQ(all.step, (TimeStep{.months = 12}));
  EXPECT_EQ(all.step.text(), "1 year");
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

TEST_F(FieldsTimes, FilesOfOneTimeAreJoined) {
  std::vector<std::string> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(single(fmt::format("t{}.nc", 3 - i), 6 * (3 - i), 10 + 3 - i, "t", i != 2));
  }
  prepare_fields(files, folder_ / "p");
  const FieldsDataset data(folder_ / "p");
  const FieldsDescription& all = data.description();
  EXPECT_EQ(text_of(all.calendar, all.times.front()), "2000-01-01T00:00:00");
  EXPECT_EQ(all.step.seconds, 6 * 3600);
  EXPECT_TRUE(all.constants.empty());
  for (int64_t time = 0; time < 4; ++time) EXPECT_EQ(data.field(time, 0)[5], static_cast<float>(10 + time));
  EXPECT_THAT(refused_fields(folder_, {files[0], files[1], files[3]}), HasSubstr("1 time is missing between"));
  // One file alone is a dataset of one time.
  EXPECT_EQ(prepare_fields({files[0]}, folder_ / "one").json.at("times"), 1);
}

TEST_F(FieldsTimes, AFieldOfOneTimeBesideASeriesIsAConstant) {
  const std::string series = file_at({0, 6, 12}, "hours since 2000-01-01").write(folder_ / "series.nc");
  const std::string orography = single("orography.nc", 6, 7, "height");
  prepare_fields({series, orography}, folder_ / "p");
  const FieldsDescription all = read_fields_description(folder_ / "p.json");
  EXPECT_THAT(FieldsDescription::names(all.variables), ElementsAre("t"));
  EXPECT_THAT(FieldsDescription::names(all.constants), ElementsAre("height"));
}

}  // namespace
}  // namespace terrace::data
