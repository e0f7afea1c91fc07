// Fields of any order, direction and packing come to their places by the names of their coordinates, and what does not
// fit together is refused by file and time with nothing left behind.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A number that says where it belongs: longitudes as from 0 to 360.
double place_value(double time, double level, double latitude, double longitude) {
  return time * 1000 + level + latitude / 100 + (longitude < 0 ? longitude + 360 : longitude) / 100000;
}

TestVariable named(const std::string& name, std::vector<std::string> dimensions = {"time", "lat", "lon"}) {
  return {.name = name, .dimensions = std::move(dimensions), .value = place_value};
}

// Whether each number of a variable is that of its place. `hours` are the times in the units of the file.
void expect_places(const FieldsDataset& dataset, const std::string& name, double level,
                   const std::vector<double>& hours) {
  const FieldsDescription& all = dataset.description();
  const int64_t variable = FieldsDescription::find(all.variables, name);
  ASSERT_GE(variable, 0) << name;
  ASSERT_EQ(all.times.size(), hours.size());
  for (size_t time = 0; time < hours.size(); ++time) {
    const std::span<const float> field = dataset.field(static_cast<int64_t>(time), variable);
    for (size_t i = 0; i < field.size(); ++i) {
      const double latitude = all.latitudes[i / all.longitudes.size()],
                   longitude = all.longitudes[i % all.longitudes.size()];
      ASSERT_EQ(field[i], static_cast<float>(place_value(hours[time], level, latitude, longitude))) << name << " " << i;
    }
  }
}

TEST(PrepareFields, CoordinatesAreReadByNameInAnyOrder) {
  const TemporaryFolder folder;
  TestFile file{.levels = {500, 850}, .variables = {named("t"), named("z", {"level", "lon", "time", "lat"})}};
  prepare_fields({file.write(folder / "in_forward.nc")}, folder / "forward");
  file.latitudes = {60, 0, -60};
  file.longitudes = {-180, -90, 0, 90};
  file.levels = {85000, 50000};
  file.level_units = "Pa";
  for (TestVariable& variable : file.variables) {
    variable.value = [](double time, double level, double latitude, double longitude) {
      return place_value(time, level / 100, latitude, longitude);
    };
  }
  file.format = NC_CLASSIC_MODEL;
  prepare_fields({file.write(folder / "in_backward.nc")}, folder / "backward");
  for (const char* name : {"forward", "backward"}) {
    const FieldsDataset dataset(folder / name);
    const FieldsDescription& all = dataset.description();
    EXPECT_THAT(all.latitudes, ElementsAre(-60, 0, 60));
    EXPECT_THAT(all.longitudes, ElementsAre(0, 90, 180, 270));
    EXPECT_THAT(FieldsDescription::names(all.variables), ElementsAre("t", "z_500", "z_850"));
    EXPECT_EQ(all.variables[1].level_units, "hPa");
    EXPECT_EQ(all.step.seconds, 6 * 3600);
    expect_places(dataset, "t", 0, {0, 6, 12, 18});
    expect_places(dataset, "z_500", 500, {0, 6, 12, 18});
    expect_places(dataset, "z_850", 850, {0, 6, 12, 18});
  }
}

TEST(PrepareFields, CoordinatesMayHaveAnyNameWithTheRightUnits) {
  const TemporaryFolder folder;
  const TestFile file{.time_units = "hour since 1999-12-31 23:00:00",
                      .time_name = "TIME",
                      .latitude_name = "FNOCY",
                      .longitude_name = "x",
                      .variables = {named("UWND", {"TIME", "FNOCY", "x"})}};
  prepare_fields({file.write(folder / "names.nc")}, folder / "p");
  const FieldsDataset dataset(folder / "p");
  EXPECT_EQ(text_of(Calendar::standard, dataset.description().times.front()), "1999-12-31T23:00:00");
  expect_places(dataset, "UWND", 0, {0, 6, 12, 18});
}

TEST(PrepareFields, FilesOfVariablesAndYearsAreJoined) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "in/t");
  // Named against their order in time.
  TestFile file{.times = {24, 30}, .variables = {named("t")}};
  file.write(folder / "in/t/a.nc");
  file.times = {0, 6, 12, 18};
  file.write(folder / "in/t/b.nc");
  file.variables = {named("z")};
  file.times = {0, 6, 12, 18, 24, 30};
  file.write(folder / "in/z.nc4");
  file.times = {};
  file.variables = {named("orography", {"lat", "lon"})};
  file.write(folder / "in/constants.nc");
  folder.write("in/readme.txt", "not NetCDF");
  const PrepareResult result = prepare_fields({folder / "in"}, folder / "in/p");
  const FieldsDataset dataset(folder / "in/p");
  EXPECT_EQ(result.json.at("files"), 4);
  for (const char* name : {"t", "z"}) expect_places(dataset, name, 0, {0, 6, 12, 18, 24, 30});
  EXPECT_THAT(FieldsDescription::names(dataset.description().constants), ElementsAre("orography"));
  EXPECT_EQ(dataset.constant(0)[5], static_cast<float>(place_value(0, 0, 0, 90)));
  // The output is no input of a second run.
  EXPECT_EQ(prepare_fields({folder / "in"}, folder / "in/p").json, result.json);
}

TEST(PrepareFields, PackedAndMissingValuesAreThoseOfCf) {
  const TemporaryFolder folder;
  const auto stored = [](double time, double, double, double) { return time == 6 ? -99 : time; };
  TestVariable packed{.name = "t", .value = stored, .type = NC_SHORT};
  packed.numbers = {{"scale_factor", 0.5}, {"add_offset", 200}, {"_FillValue", -99}};
  TestVariable plain{.name = "q", .value = [](double time, double, double, double) { return time == 12 ? -1e34 : 1; }};
  plain.numbers = {{"missing_value", -1e34}};
  TestVariable never_written{.name = "w", .value = [](double time, double, double, double) {
                               return time == 18 ? NC_FILL_FLOAT : time == 0 ? 2e5 : 3;
                             }};
  never_written.numbers = {{"valid_max", 1e5}};
  const TestFile file{.variables = {packed, plain, never_written}};
  const std::string path = file.write(folder / "packed.nc");
  EXPECT_THAT(refused_fields(folder, {path}, {{"variables", {"t"}}}),
              AllOf(HasSubstr("packed.nc: t at 2000-01-01T06:00:00 has 12 of 12 values missing"), HasSubstr("--mask")));
  prepare_fields({path}, folder / "p", {{"mask", {}}});
  const FieldsDataset dataset(folder / "p");
  EXPECT_TRUE(dataset.description().has_missing);
  const std::vector<std::vector<float>> expected = {{200, NAN, 206, 209}, {1, 1, NAN, 1}, {NAN, 3, 3, NAN}};
  for (int64_t variable = 0; variable < 3; ++variable) {
    for (int64_t time = 0; time < 4; ++time) {
      const float wanted = expected[static_cast<size_t>(variable)][static_cast<size_t>(time)];
      for (const float value : dataset.field(time, variable)) {
        EXPECT_TRUE(std::isnan(wanted) ? std::isnan(value) : value == wanted)
            << variable << " " << time << " " << value;
      }
    }
  }
  EXPECT_DOUBLE_EQ(dataset.description().variables[0].moments->mean, 205);
}

TEST(PrepareFields, VariablesLevelsAndConstantsAreChosenByName) {
  const TemporaryFolder folder;
  const TestFile file{
      .levels = {250, 500, 850},
      .variables = {named("t", {"time", "level", "lat", "lon"}), named("z", {"time", "level", "lat", "lon"}),
                    named("lsm", {"lat", "lon"}), named("soil", {"lat", "lon"})}};
  const std::string path = file.write(folder / "all.nc");
  const auto names = [&](const Flags& flags) {
    prepare_fields({path}, folder / "p", flags);
    const FieldsDescription all = read_fields_description(folder / "p.json");
    std::vector<std::string> found = FieldsDescription::names(all.variables);
    for (const FieldOfDataset& constant : all.constants) found.push_back("+" + constant.name);
    return found;
  };
  EXPECT_THAT(names({{"variables", {"z_850", "t"}}, {"levels", {"500", "850"}}, {"constants", {"lsm"}}}),
              ElementsAre("z_850", "t_500", "t_850", "+lsm"));
  expect_places(FieldsDataset(folder / "p"), "t_500", 500, {0, 6, 12, 18});
  EXPECT_THAT(names({{"variables", {"t_250", "t_850"}}}), ElementsAre("t_250", "t_850", "+lsm", "+soil"));
  expect_places(FieldsDataset(folder / "p"), "t_850", 850, {0, 6, 12, 18});
  EXPECT_THAT(refused_fields(folder, {path}, {{"variables", {"z_85"}}}),
              AllOf(HasSubstr("no file has a variable z_85 (like z_850?)"), HasSubstr("t at 3 levels")));
  EXPECT_THAT(refused_fields(folder, {path}, {{"levels", {"700"}}}),
              HasSubstr("no variable of the files has the level 700"));
  EXPECT_THAT(refused_fields(folder, {path}, {{"variables", {"lsm"}}}), HasSubstr("name it with --constants"));
  EXPECT_THAT(refused_fields(folder, {path}, {{"levels", {"high"}}}), HasSubstr("--levels high is no number"));
}

TEST(PrepareFields, EveryCalendarAndMonthsHaveTheirStep) {
  const TemporaryFolder folder;
  TestFile file{.times = {58, 59, 60}, .time_units = "days since 2000-01-01", .variables = {named("t")}};
  const auto last = [&](const std::string& calendar) {
    file.calendar = calendar;
    prepare_fields({file.write(folder / "t.nc")}, folder / "p");
    const FieldsDescription all = read_fields_description(folder / "p.json");
    EXPECT_EQ(all.step.seconds, 86400);
    return text_of(all.calendar, all.times.back());
  };
  EXPECT_EQ(last("standard"), "2000-03-01T00:00:00");
  EXPECT_EQ(last("noleap"), "2000-03-02T00:00:00");
  EXPECT_EQ(last("360_day"), "2000-03-01T00:00:00");
  EXPECT_EQ(last("julian"), "2000-03-01T00:00:00");
  // The middles of months.
  file.calendar = "standard";
  file.times = {15.5, 45, 75.5, 106, 136.5};
  prepare_fields({file.write(folder / "t.nc")}, folder / "p");
  const FieldsDescription months = read_fields_description(folder / "p.json");
  EXPECT_EQ(months.step, (TimeStep{.months = 1}));
  EXPECT_EQ(months.step.steps(30 * 86400.0), 1);
  EXPECT_EQ(months.step.steps(365 * 86400.0), 12);
  EXPECT_EQ(months.step.steps(14 * 86400.0), std::nullopt);
}

TEST(PrepareFields, SplitsAreInclusiveAndStatisticsAreOfTheTrainingPartAlone) {
  const TemporaryFolder folder;
  const auto noise = [](double time, double, double latitude, double longitude) {
    return 1e6 + std::sin(time * 12.9898 + latitude * 78.233 + longitude * 37.719) * (1 + time / 100);
  };
  TestFile file{.variables = {{.name = "t", .value = noise}}};
  file.times.clear();
  for (int i = 0; i < 40; ++i) file.times.push_back(i * 6);
  prepare_fields({file.write(folder / "t.nc")}, folder / "p",
                 {{"train", {"2000-01-02", "2000-01-05"}},
                  {"test", {"2000-01-07T06", "2000-01-07"}},
                  {"validation", {"2000-01-06", "2000-01-06"}},
                  {"climatology", {"daily"}}});
  const FieldsDataset dataset(folder / "p");
  const FieldsDescription& all = dataset.description();
  EXPECT_EQ(std::pair(all.splits.at("train").first_time, all.splits.at("train").end_time),
            std::pair(int64_t{4}, int64_t{20}));
  EXPECT_EQ(std::pair(all.splits.at("test").first_time, all.splits.at("test").end_time),
            std::pair(int64_t{25}, int64_t{28}));
  EXPECT_EQ(all.splits.at("validation").count(), 4);
  long double sum = 0, changes = 0;
  for (int64_t time = 4; time < 20; ++time) {
    for (const float value : dataset.field(time, 0)) sum += value;
  }
  const long double mean = sum / (16 * 12);
  long double squares = 0, change_squares = 0;
  for (int64_t time = 4; time < 20; ++time) {
    for (size_t i = 0; i < 12; ++i) {
      squares += (dataset.field(time, 0)[i] - mean) * (dataset.field(time, 0)[i] - mean);
      if (time > 4) changes += dataset.field(time, 0)[i] - static_cast<long double>(dataset.field(time - 1, 0)[i]);
    }
  }
  changes /= 15 * 12;
  for (int64_t time = 5; time < 20; ++time) {
    for (size_t i = 0; i < 12; ++i) {
      const long double change = dataset.field(time, 0)[i] - static_cast<long double>(dataset.field(time - 1, 0)[i]);
      change_squares += (change - changes) * (change - changes);
    }
  }
  // Rounding of sums of 192 numbers near 1e6 in double precision, beside a deviation of 0.8.
  EXPECT_NEAR(all.variables[0].moments->mean, static_cast<double>(mean), 1e6 * 192 * 1.1e-16);
  EXPECT_NEAR(all.variables[0].moments->deviation, static_cast<double>(std::sqrt(squares / 192)), 1e-9);
  EXPECT_NEAR(all.variables[0].changes->mean, static_cast<double>(changes), 1e-9);
  EXPECT_NEAR(all.variables[0].changes->deviation, static_cast<double>(std::sqrt(change_squares / 180)), 1e-9);
  // 3 January, 06:00, has one training time; 29 February has none, and so the mean of all.
  EXPECT_EQ(all.climatology_periods(), 366 * 4);
  EXPECT_EQ(dataset.climatology(2 * 4 + 1, 0)[3], dataset.field(9, 0)[3]);
  double at_place = 0;
  for (int64_t time = 4; time < 20; ++time) at_place += dataset.field(time, 0)[3];
  EXPECT_EQ(dataset.climatology(59 * 4, 0)[3], static_cast<float>(at_place / 16));
  EXPECT_THAT(refused_fields(folder, {folder / "t.nc"}, {{"train", {"2001", "2002"}}}),
              HasSubstr("--train 2001 2002 has no time; the files have times from 2000-01-01T00:00:00 to 2000-01-10"));
  EXPECT_THAT(refused_fields(folder, {folder / "t.nc"},
                             {{"train", {"2000-01-01", "2000-01-04"}}, {"test", {"2000-01-04", "2001"}}}),
              HasSubstr("have times in common"));
  EXPECT_THAT(refused_fields(folder, {folder / "t.nc"}, {{"train", {"2000"}}}), HasSubstr("--train has 1 date"));
}

TEST(PrepareFields, StatisticsDoNotDependOnThreads) {
  const TemporaryFolder folder;
  const TestFile file{.variables = {named("t"), named("u"), named("v")}};
  const std::string path = file.write(folder / "t.nc");
  std::set<std::string> texts;
  for (const int threads : {1, 2, 5}) {
    FieldsPreparation().prepare({.inputs = {path}, .output = folder / "p", .overwrite = true, .threads = threads});
    texts.insert(read_text(folder / "p.json"));
  }
  EXPECT_EQ(texts.size(), 1u);
}

TEST(PrepareFields, GapsDuplicatesAndOtherGridsAreRefusedByFileAndTime) {
  const TemporaryFolder folder;
  TestFile file{.variables = {named("t")}};
  const std::string first = file.write(folder / "first.nc");
  file.times = {30, 36};
  const std::string later = file.write(folder / "later.nc");
  EXPECT_THAT(refused_fields(folder, {first, later}),
              AllOf(HasSubstr("1 time is missing between 2000-01-01T18:00:00"), HasSubstr("first.nc"),
                    HasSubstr("2000-01-02T06:00:00"), HasSubstr("later.nc"), HasSubstr("--allow-gaps")));
  prepare_fields({first, later}, folder / "gap", {{"allow-gaps", {}}});
  const FieldsDataset with_gap(folder / "gap");
  expect_places(with_gap, "t", 0, {0, 6, 12, 18, 30, 36});
  EXPECT_EQ(with_gap.time_after(3, 1), -1);
  EXPECT_EQ(with_gap.time_after(3, 2), 4);
  file.times = {18, 24};
  EXPECT_THAT(refused_fields(folder, {first, file.write(folder / "again.nc")}),
              AllOf(HasSubstr("first.nc and"), HasSubstr("again.nc both have t for 2000-01-01T18:00:00")));
  file.times = {0, 6, 6};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "twice.nc")}),
              HasSubstr("twice.nc has the time 2000-01-01T06:00:00 twice"));
  file.times = {0, 6, 13};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "odd.nc")}),
              AllOf(HasSubstr("odd.nc: 2000-01-01T13:00:00 lies 25200 s behind"), HasSubstr("no multiple of the 6 h")));
  file.times = {24, 30};
  file.latitudes = {-60, 1, 60};
  EXPECT_THAT(refused_fields(folder, {first, file.write(folder / "grid.nc")}),
              AllOf(HasSubstr("grid.nc has another grid, 3 latitudes from -60 to 60"), HasSubstr("first.nc")));
  file.latitudes = {-60, 0, 60};
  file.calendar = "noleap";
  EXPECT_THAT(refused_fields(folder, {first, file.write(folder / "calendar.nc")}),
              HasSubstr("calendar.nc has the calendar noleap"));
  file.calendar = "standard";
  file.longitudes = {0, 90, 180, 360};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "round.nc")}), HasSubstr("lon 0 degrees occurs twice"));
  TestFile other{.times = {0, 6, 18}, .variables = {named("u")}};
  EXPECT_THAT(refused_fields(folder, {first, other.write(folder / "lacks.nc")}),
              AllOf(HasSubstr("no file has u for 2000-01-01T12:00:00"), HasSubstr("first.nc has for others")));
  prepare_fields({first, folder / "lacks.nc"}, folder / "common", {{"allow-gaps", {}}});
  expect_places(FieldsDataset(folder / "common"), "u", 0, {0, 6, 18});
}

TEST(PrepareFields, UnitsMustBeKnownAndTheSame) {
  const TemporaryFolder folder;
  TestFile file{.variables = {named("t")}};
  const std::string first = file.write(folder / "first.nc");
  file.times = {24, 30};
  file.variables[0].texts = {{"units", "kelvin"}};
  prepare_fields({first, file.write(folder / "same.nc")}, folder / "p");
  file.variables[0].texts = {{"units", "degC"}};
  const std::string other = file.write(folder / "other.nc");
  EXPECT_THAT(refused_fields(folder, {first, other}),
              AllOf(HasSubstr("other.nc: t has the units \"degC\""), HasSubstr("first.nc it has \"K\"")));
  file.variables[0].texts = {{"units", "blorb"}};
  const std::string unknown = file.write(folder / "unknown.nc");
  EXPECT_THAT(
      refused_fields(folder, {unknown}),
      AllOf(HasSubstr("unknown.nc: t has the units \"blorb\", which are not known"), HasSubstr("--units t=UNITS")));
  prepare_fields({unknown}, folder / "p", {{"units", {"t=K"}}});
  EXPECT_EQ(read_fields_description(folder / "p.json").variables[0].units, "K");
  EXPECT_THAT(refused_fields(folder, {first}, {{"units", {"q=K"}}}), HasSubstr("--units names q"));
  file.time_units = "hours";
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "time.nc")}),
              HasSubstr("time.nc: the times have units \"hours\""));
}

TEST(PrepareFields, ConstantsOfSeveralFilesMustBeTheSame) {
  const TemporaryFolder folder;
  TestFile file{.variables = {named("t"), named("orography", {"lat", "lon"}), named("mask", {"lat", "lon"})}};
  const std::string first = file.write(folder / "first.nc");
  file.times = {24, 30};
  prepare_fields({first, file.write(folder / "same.nc")}, folder / "p");
  // Another packing rounds otherwise.
  file.variables[1].value = [](double, double, double latitude, double longitude) {
    return place_value(0, 0, latitude, longitude) * (1 + 2e-7);
  };
  prepare_fields({first, file.write(folder / "rounded.nc")}, folder / "p");
  file.variables[1].value = [](double, double, double latitude, double longitude) {
    return place_value(0, 0, latitude, longitude) + (latitude == 60 && longitude > 100 ? 0.25 : 0);
  };
  const std::string other = file.write(folder / "other.nc");
  const std::string refused = refused_fields(folder, {first, other});
  EXPECT_THAT(refused, AllOf(HasSubstr("first.nc and "), HasSubstr("other.nc have different values of the constant "
                                                                   "orography: at 2 of 12 places, by up to 0.25")));
  EXPECT_THAT(refused_fields(folder, {other, first}), HasSubstr("at 2 of 12 places"));
  prepare_fields({first, other}, folder / "p", {{"constants", {"mask"}}});
  file.variables[1].numbers = {{"_FillValue", file.variables[1].value(0, 0, 0, 90)}};
  EXPECT_THAT(refused_fields(folder, {first, file.write(folder / "gap.nc")}, {{"mask", {}}}),
              HasSubstr("at 3 of 12 places"));
}

TEST(PrepareFields, TruncatedAndForeignFilesAreRefused) {
  const TemporaryFolder folder;
  TestFile file{.variables = {named("t")}};
  for (const int format : {NC_NETCDF4, NC_CLASSIC_MODEL, NC_64BIT_OFFSET, NC_64BIT_DATA}) {
    file.format = format;
    const std::string path = file.write(folder / "whole.nc");
    prepare_fields({path}, folder / "p");
    for (const uint64_t bytes : {std::filesystem::file_size(path) - 1, uint64_t{200}, uint64_t{20}}) {
      std::filesystem::resize_file(path, bytes);
      EXPECT_THAT(refused_fields(folder, {path}), AllOf(HasSubstr("whole.nc"), HasSubstr("truncated"))) << format;
    }
  }
  EXPECT_THAT(refused_fields(folder, {folder.write("text.nc", "no NetCDF")}),
              HasSubstr("text.nc cannot be read as NetCDF"));
  for (const auto& [bytes, format] : std::map<std::string, std::string>{
           {std::string("GRIB\x00\x34\x80\x01", 8), "GRIB of edition 1"},
           {std::string("GRIB\0\0\0\2\0", 9), "GRIB of edition 2"},
           {std::string("\r\r\n024\r\r\nHTXA50 ECMF 120000\r\r\nGRIB\0\0\0\2\0", 39), "GRIB of edition 2"},
           {"\x1f\x8b\x08", "compressed by gzip"},
           {"<html>404</html>", "a page of the web"},
           {"", "0 bytes"}}) {
    const std::string path = folder.write("other.nc", bytes);
    EXPECT_THAT(refused_fields(folder, {path}), AllOf(HasSubstr("other.nc "), HasSubstr(format))) << format;
    EXPECT_THAT(refused_fields(folder, {path}), Not(HasSubstr("truncated"))) << format;
  }
  EXPECT_THAT(refused_fields(folder, {folder.write("t.grib2", std::string("GRIB\0\0\0\2", 8))}),
              AllOf(HasSubstr("cdo -f nc4 copy"), HasSubstr("engine=\"cfgrib\""), HasSubstr("t.nc")));
  EXPECT_THAT(refused_fields(folder, {folder / "none.nc"}), HasSubstr("none.nc does not exist"));
  std::filesystem::create_directories(folder.path() / "empty");
  EXPECT_THAT(refused_fields(folder, {folder / "empty"}), HasSubstr("no NetCDF file"));
  file.format = NC_NETCDF4;
  file.variables = {named("profile", {"time", "lat"})};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "profile.nc")}), HasSubstr("no variable with dimensions of"));
}

TEST(PrepareFields, ARotatedGridIsNotTakenForLatitudes) {
  const TemporaryFolder folder;
  const TestFile file{
      .latitude_name = "rlat", .longitude_name = "rlon", .variables = {named("t", {"time", "rlat", "rlon"})}};
  const std::string path = file.write(folder / "rotated.nc");
  int id = 0, latitude = 0;
  nc_open(path.c_str(), NC_WRITE, &id);
  nc_inq_varid(id, "rlat", &latitude);
  nc_put_att_text(id, latitude, "units", 7, "degrees");
  nc_put_att_text(id, latitude, "axis", 1, "Y");
  nc_put_att_text(id, latitude, "standard_name", 13, "grid_latitude");
  nc_close(id);
  EXPECT_THAT(refused_fields(folder, {path}), AllOf(HasSubstr("since rlat has the standard name grid_latitude"),
                                                    HasSubstr("other grids have to be interpolated")));
}

// Ocean models write the numbers of rows and columns as degrees_north and degrees_east, and the real coordinates as
// fields.
TEST(PrepareFields, ACurvilinearGridWhoseAxesLookRegularIsRefused) {
  const TemporaryFolder folder;
  TestVariable latitude{.name = "lat2",
                        .dimensions = {"y", "x"},
                        .value = [](double, double, double y, double x) { return y + (x > 100 ? 2 : 0); },
                        .texts = {{"units", "degrees_north"}, {"standard_name", "latitude"}}};
  TestFile file{.latitude_name = "y", .longitude_name = "x", .variables = {named("t", {"time", "y", "x"}), latitude}};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "ocean.nc")}),
              AllOf(HasSubstr("t lies on a curvilinear grid: at row 1 and column 3, from 1, lat2 is -58 and y is -60"),
                    HasSubstr("cdo remapbil")));
  // Longitudes in the other order of dimensions, and beyond 360.
  file.variables[1] = {.name = "lon2",
                       .dimensions = {"x", "y"},
                       .value = [](double, double, double y, double x) { return x + 360 + (y > 0 ? 0.5 : 0); },
                       .texts = {{"units", "degree"}, {"standard_name", "longitude"}}};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "ocean.nc")}),
              HasSubstr("at row 3 and column 1, from 1, lon2 is 360.5 and x is 0"));
  // Fields that repeat the axes say nothing else.
  file.variables[1].value = [](double, double, double, double x) { return x + 360; };
  EXPECT_EQ(prepare_fields({file.write(folder / "regular.nc")}, folder / "p").json.at("longitudes"), 4);
  // An axis of a rotated grid, whatever its units.
  file.variables = {named("t", {"time", "y", "x"})};
  const std::string path = file.write(folder / "rotated.nc");
  int id = 0, axis = 0;
  nc_open(path.c_str(), NC_WRITE, &id);
  nc_inq_varid(id, "y", &axis);
  nc_put_att_text(id, axis, "standard_name", 13, "grid_latitude");
  nc_close(id);
  EXPECT_THAT(
      refused_fields(folder, {path}),
      HasSubstr("t lies on a rotated or curvilinear grid, since the standard name of its axis y is grid_latitude"));
}

TEST(PrepareFields, AStopLeavesNothingAndAnOldDatasetStays) {
  const TemporaryFolder folder;
  const TestFile file{.variables = {named("t")}};
  const std::string path = file.write(folder / "t.nc");
  const std::atomic<bool> stop = true;
  std::filesystem::create_directories(folder.path() / "out");
  const auto stopped = [&](bool overwrite) {
    return user_error([&] {
      FieldsPreparation().prepare(
          {.inputs = {path}, .output = folder / "out/p", .overwrite = overwrite, .stop = &stop});
    });
  };
  EXPECT_THAT(stopped(false), HasSubstr("interrupted"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "out"));
  prepare_fields({path}, folder / "out/p");
  const std::string before = read_text(folder / "out/p.json");
  EXPECT_THAT(stopped(false), HasSubstr("exists; choose another --output, or give --overwrite"));
  EXPECT_THAT(stopped(true), HasSubstr("interrupted"));
  EXPECT_EQ(read_text(folder / "out/p.json"), before);
  expect_places(FieldsDataset(folder / "out/p"), "t", 0, {0, 6, 12, 18});
  std::filesystem::resize_file(folder / "out/p.nc", 4000);
  EXPECT_THAT(user_error([&] { FieldsDataset(folder / "out/p"); }), HasSubstr("it was cut off"));
}

}  // namespace
}  // namespace terrace::data
