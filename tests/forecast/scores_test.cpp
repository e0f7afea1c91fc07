// Scores equal those worked out by hand and those of an independent program; files that do not fit are refused.
#include "terrace/forecast/scores.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/forecast/forecast_file.h"
#include "terrace/forecast/forecast_scorer.h"
#include "terrace/forecast/score_file.h"
#include "terrace/forecast/score_report.h"
#include "tests/data/fields_files.h"

namespace terrace::forecast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const float none = std::numeric_limits<float>::quiet_NaN();

TEST(ScoreWeights, CosinesAndCellAreasOverTheirMeans) {
  const GridWeights weights = grid_weights({-60, 0, 60});
  // Cosines 0.5, 1, 0.5; edges at -90, -30, 30 and 90 degrees.
  EXPECT_THAT(weights.cosine, ElementsAre(testing::DoubleNear(0.75, 1e-15), testing::DoubleNear(1.5, 1e-15),
                                          testing::DoubleNear(0.75, 1e-15)));
  EXPECT_THAT(weights.area, ElementsAre(testing::DoubleNear(0.75, 1e-15), testing::DoubleNear(1.5, 1e-15),
                                        testing::DoubleNear(0.75, 1e-15)));
  const GridWeights uneven = grid_weights({-90, 0, 90});
  EXPECT_NEAR(uneven.area[0], 3 * (1 - std::numbers::sqrt2 / 2) / 2, 1e-15);
  EXPECT_NEAR(uneven.cosine[0], 0, 1e-15);
}

// sin(upper edge) - sin(lower edge) of each row, over their mean.
std::vector<double> areas_between(const std::vector<double>& edges) {
  const auto sine = [](double degrees) { return std::sin(degrees * std::numbers::pi / 180); };
  std::vector<double> areas;
  for (size_t i = 1; i < edges.size(); ++i) {
    areas.push_back((sine(edges[i]) - sine(edges[i - 1])) * static_cast<double>(edges.size() - 1) /
                    (sine(edges.back()) - sine(edges.front())));
  }
  return areas;
}

TEST(ScoreWeights, CellsOfARegionEndHalfADistanceBeyondItsOutermostLatitudes) {
  const auto near = [](const std::vector<double>& areas) {
    return testing::Pointwise(testing::DoubleNear(1e-14), areas);
  };
  EXPECT_THAT(grid_weights({35, 37.5, 40}).area, near(areas_between({33.75, 36.25, 38.75, 41.25})));
  EXPECT_THAT(grid_weights({-35, -30, -20}).area, near(areas_between({-37.5, -32.5, -25, -15})));
  // Up to the pole, or to the row beside it: there is no room for a further latitude of its own.
  EXPECT_THAT(grid_weights({85, 87.5, 90}).area, near(areas_between({83.75, 86.25, 88.75, 90})));
  EXPECT_THAT(grid_weights({83.75, 86.25, 88.75}).area, near(areas_between({82.5, 85, 87.5, 90})));
  // The last row before one at the pole.
  EXPECT_THAT(grid_weights({82.5, 85, 87.5}).area, near(areas_between({81.25, 83.75, 86.25, 88.75})));
  // A Gaussian grid, whose outermost distances are the smallest, reaches the poles.
  EXPECT_THAT(grid_weights({-59.44, -19.88, 19.88, 59.44}).area, near(areas_between({-90, -39.66, 0, 39.66, 90})));
  EXPECT_THAT(grid_weights({50}).area, near({1}));
}

// Latitudes -60, 0, 60 with weights 0.75, 1.5, 0.75, and two longitudes.
TEST(ScoresOfAField, MatchHandCalculation) {
  const GridWeights weights = grid_weights({-60, 0, 60});
  const std::vector<float> truth = {1, 2, 3, 4, 5, 6}, forecast = {3, 2, 4, 4, 5, 9}, start = {1, 3, 3, 5, 5, 7};
  const std::vector<float> climatology = {0, 0, 2, 2, 4, 4}, earlier = {1, 1, 1, 1, 1, 1};
  const FieldFigures figures = figures_of_field(weights, {.forecast = forecast,
                                                          .truth = truth,
                                                          .start = start,
                                                          .climatology = climatology,
                                                          .start_climatology = earlier,
                                                          .damping = 0.5});
  // Errors 2 0 | 1 0 | 0 3; of persistence 0 1 | 0 1 | 0 1; of the climatology 1 2 | 1 2 | 1 2.
  EXPECT_DOUBLE_EQ(figures.square, (0.75 * 4 + 1.5 * 1 + 0.75 * 9) / 6);
  EXPECT_DOUBLE_EQ(figures.bias, (0.75 * 2 + 1.5 * 1 + 0.75 * 3) / 6);
  EXPECT_DOUBLE_EQ(figures.persistence_square, 0.5);
  EXPECT_DOUBLE_EQ(figures.climatology_square, 2.5);
  // Anomalies of the forecast 3 2 | 2 2 | 1 5 and of the truth 1 2 | 1 2 | 1 2.
  EXPECT_DOUBLE_EQ(figures.acc, (0.75 * 7 + 1.5 * 6 + 0.75 * 11) /
                                    std::sqrt((0.75 * 13 + 1.5 * 8 + 0.75 * 26) * (0.75 * 5 + 1.5 * 5 + 0.75 * 5)));
  // Half of 0 2 | 2 4 | 4 6 less the anomalies of the truth: -1 -1 | 0 0 | 1 1.
  EXPECT_DOUBLE_EQ(figures.damped_square, (0.75 * 2 + 0.75 * 2) / 6);
}

TEST(ScoresOfAField, LeaveMissingPlacesOut) {
  const GridWeights weights = grid_weights({-60, 0, 60});
  const std::vector<float> truth = {1, none, 3, 4, 5, 6}, forecast = {3, 2, 4, none, 5, 9},
                           start = {none, 3, 3, 5, 5, 7};
  const FieldFigures figures = figures_of_field(weights, {.forecast = forecast, .truth = truth, .start = start});
  EXPECT_DOUBLE_EQ(figures.square, (0.75 * 4 + 1.5 * 1 + 0.75 * 9) / (0.75 + 1.5 + 1.5));
  EXPECT_DOUBLE_EQ(figures.persistence_square, (1.5 * 1 + 0.75 * 1) / (3 + 1.5));
  EXPECT_TRUE(std::isnan(figures.acc)) << "there is no climatology";
  const std::vector<float> missing(6, none);
  ScoreSums sums;
  sums.add(figures);
  sums.add(figures_of_field(weights, {.forecast = forecast, .truth = missing, .start = start}));
  EXPECT_DOUBLE_EQ(sums.scores().rmse, std::sqrt(figures.square)) << "a field without values does not count";
  sums.add(figures_of_field(weights, {.forecast = missing, .truth = truth, .start = start}));
  const Scores scores = sums.scores();
  EXPECT_DOUBLE_EQ(scores.rmse, std::sqrt(figures.square));
  EXPECT_EQ(scores.forecasts, 3);
  EXPECT_EQ(scores.left_out, 2) << "one without a truth, one without a forecast";
  EXPECT_EQ(scores.places.compared, 4);
  EXPECT_EQ(scores.places.without_forecast, 1 + 5);
  EXPECT_EQ(scores.places.without_truth, 1 + 6 + 1);
}

// The first is never above the second.
TEST(ScoreMeans, DifferInTheOrderOfRootAndMean) {
  ScoreSums sums;
  for (const double square : {1.0, 9.0}) sums.add({.square = square, .area_square = 4 * square, .bias = square});
  const Scores scores = sums.scores();
  EXPECT_EQ(scores.forecasts, 2);
  EXPECT_DOUBLE_EQ(scores.rmse, 2);
  EXPECT_DOUBLE_EQ(scores.rmse_weatherbench1, std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(scores.rmse_weatherbench2, std::sqrt(20.0));
  EXPECT_DOUBLE_EQ(scores.bias, 5);
}

// Loops in lanes and the rest of a row take the same places, whatever the width.
TEST(ScoresOfAField, CountEveryColumnOnce) {
  for (size_t columns : {1u, 7u, 8u, 9u, 16u, 23u}) {
    const std::vector<float> truth(2 * columns, 0.0F), start(2 * columns, 2.0F);
    std::vector<float> forecast;
    double squares = 0;
    for (size_t i = 0; i < 2 * columns; ++i) {
      forecast.push_back(static_cast<float>(i));
      squares += static_cast<double>(i * i);
    }
    const FieldFigures figures = figures_of_field(
        grid_weights({-45, 45}),
        {.forecast = forecast, .truth = truth, .start = start, .climatology = truth, .start_climatology = truth});
    EXPECT_NEAR(figures.square, squares / static_cast<double>(2 * columns), 1e-12 * squares) << columns;
    EXPECT_DOUBLE_EQ(figures.persistence_square, 4) << columns;
  }
}

// A dataset of 60 six-hourly times with a field of two levels and one without, and made-up forecasts of its last times.
class ScoredFile : public testing::Test {
 protected:
  void SetUp() override {
    data::TestFile file{.levels = {500, 850}, .latitudes = {-75, -45, -15, 15, 45, 75}};
    file.times.clear();
    for (int time = 0; time < 60; ++time) file.times.push_back(6 * time);
    file.longitudes.clear();
    for (int column = 0; column < 11; ++column) file.longitudes.push_back(column * 360.0 / 11);
    const auto wave = [](double time, double level, double latitude, double longitude) {
      return 280 + 10 * std::sin(time / 31 + longitude / 57 + level) + latitude / 9 + 3 * std::cos(time * latitude);
    };
    file.variables = {{.name = "t", .dimensions = {"time", "level", "lat", "lon"}, .value = wave},
                      {.name = "sp", .value = wave, .texts = {{"units", "Pa"}}}};
    data::prepare_fields({file.write(folder_ / "in.nc")}, prefix_,
                         {{"train", {"2000-01-01", "2000-01-10"}}, {"test", {"2000-01-11", "2000-01-15"}}});
  }

  ForecastHeader header(int64_t first, int64_t end) const {
    const data::FieldsDescription all = data::read_fields_description(data::description_path(prefix_));
    ForecastHeader header{
        .grid = {all.latitudes, all.longitudes}, .leads = {6 * 3600, 24 * 3600}, .fields = all.variables};
    for (int64_t start = first; start < end; ++start) {
      header.starts.push_back(all.times[static_cast<size_t>(start)]);
      for (const double lead : header.leads) {
        header.valid_times.push_back(header.starts.back() + static_cast<int64_t>(lead));
      }
    }
    return header;
  }

  void write(const ForecastHeader& header, const std::string& path, bool missing = false) const {
    const auto writer = create_forecasts(path, header);
    for (size_t start = 0; start < header.starts.size(); ++start) {
      for (size_t lead = 0; lead < header.leads.size(); ++lead) {
        std::vector<float> fields;
        const size_t places = header.grid.places();
        for (size_t i = 0; i < header.fields.size() * places; ++i) {
          const double number = static_cast<double>(i + 7 * start + 3 * lead);
          fields.push_back(missing && i % 13 == 0 ? none : static_cast<float>(280 + 9 * std::sin(number * number)));
        }
        writer->write(start, lead, 0, fields);
      }
    }
    writer->commit();
  }

  Json scores(const std::string& path) const {
    const data::FieldsDataset data(prefix_);
    const auto file = open_forecasts(path);
    const MatchedForecasts matched = match_forecasts(file->contents(), data, {});
    ForecastScorer scorer(data, {"test", matched.variables, matched.leads}, [](uint64_t) {});
    std::vector<float> values;
    for (size_t start = 0; start < matched.starts.size(); ++start) {
      for (size_t lead = 0; lead < matched.leads.size(); ++lead) {
        if (matched.starts[start] < 0 || !scorer.is_scored(matched.starts[start], lead)) continue;
        for (size_t variable = 0; variable < matched.variables.size(); ++variable) {
          file->read(start, matched.lead_places[lead], matched.variable_places[variable], values);
          scorer.add(matched.starts[start], lead, variable, values);
        }
      }
    }
    return score_json(score_report(scorer, data, path));
  }

  std::string refusal(const ForecastHeader& header, const WantedForecasts& wanted = {}) const {
    write(header, folder_ / "bad.nc");
    const data::FieldsDataset data(prefix_);
    return data::user_error([&] { match_forecasts(open_forecasts(folder_ / "bad.nc")->contents(), data, wanted); });
  }

  std::string run_script(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {tests::source_dir().string() + "/tests/forecast/score_cases.py"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return data::run_python(
        folder_, "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n", all);
  }

  data::TemporaryFolder folder_;
  std::string prefix_ = folder_ / "fields";
};

TEST_F(ScoredFile, EqualsAnIndependentProgram) {
  for (const bool missing : {false, true}) {
    const std::string path = folder_ / (missing ? "missing.nc" : "forecasts.nc");
    write(header(35, 60), path, missing);
    const Json ours = scores(path), theirs = Json::parse(run_script({"score", prefix_, path, "test", "6"}));
    int compared = 0;
    for (const auto& [lead, of_lead] : theirs.at("leads").items()) {
      EXPECT_EQ(ours.at("leads").at(lead).at("starts"), of_lead.at("starts"));
      for (const auto& [name, figures] : of_lead.at("variables").items()) {
        for (const auto& [figure, value] : figures.items()) {
          const double own = ours.at("leads").at(lead).at("variables").at(name).at(figure), other = value;
          EXPECT_LE(std::abs(own - other), 1e-12 * std::abs(other)) << lead << " " << name << " " << figure;
          ++compared;
        }
      }
    }
    EXPECT_EQ(compared, 2 * 3 * 10);
  }
}

TEST_F(ScoredFile, SameScoresFromAnotherProgramsFile) {
  write(header(40, 60), folder_ / "own.nc");
  EXPECT_EQ(run_script({"write", folder_ / "own.nc", folder_ / "other.nc"}), "");
  Json own = scores(folder_ / "own.nc"), other = scores(folder_ / "other.nc");
  EXPECT_EQ(own.at("leads").dump(), other.at("leads").dump());
  EXPECT_GT(own.at("leads").at("6h").at("starts"), 0);
}

TEST_F(ScoredFile, ReadsBackWhatWasWritten) {
  ForecastHeader written = header(40, 43);
  written.fields.pop_back();
  written.fields.erase(written.fields.begin());  // one level of t, so that it is the only one
  write(written, folder_ / "one.nc");
  const auto file = open_forecasts(folder_ / "one.nc");
  ASSERT_EQ(file->contents().variables.size(), 1u);
  EXPECT_EQ(file->contents().variables[0].name, written.fields[0].name);
  EXPECT_EQ(file->contents().starts, written.starts);
  EXPECT_EQ(file->contents().leads, written.leads);
  std::vector<float> values;
  file->read(2, 1, 0, values);
  EXPECT_EQ(values.size(), written.grid.places());
  EXPECT_EQ(values[3], static_cast<float>(280 + 9 * std::sin((3.0 + 14 + 3) * (3.0 + 14 + 3))));
}

TEST_F(ScoredFile, FieldsThatAreWrittenInPartsAreReadBack) {
  const ForecastHeader written = header(40, 42);
  const auto writer = create_forecasts(folder_ / "parts.nc", written);
  const size_t places = written.grid.places(), fields = written.fields.size();
  ASSERT_GT(fields, 2u);
  const std::vector<float> first(places, 1), others((fields - 1) * places, 2);
  writer->write(1, 0, 1, others);
  writer->write(1, 0, 0, first);
  std::vector<float> values(2 * places);
  writer->read(1, 0, 0, values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[places - 1], 1);
  EXPECT_EQ(values[places], 2);
  writer->write(1, 0, fields - 1, first);
  writer->read(1, 0, fields - 2, values);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[places], 1);
}

TEST_F(ScoredFile, WrittenWholeOrNotAtAll) {
  const std::filesystem::path folder = folder_.path() / "empty";
  std::filesystem::create_directories(folder);
  { create_forecasts(folder / "f.nc", header(40, 42))->write(0, 0, 0, std::vector<float>(3 * 66)); }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_THROW(create_forecasts(folder / "no/f.nc", header(40, 42)), std::system_error);
}

TEST_F(ScoredFile, SaysWhatIsLeftOut) {
  write(header(35, 60), folder_ / "missing.nc", true);
  const Json json = scores(folder_ / "missing.nc");
  // The places 0, 13, .., 65 of the 66 of t_500 are missing; the fields behind it go on counting: t_850 lacks 5, sp 5.
  const Json& of_lead = json.at("leads").at("6h");
  const int64_t starts = of_lead.at("starts");
  for (const auto& [name, places] : std::map<std::string, int64_t>{{"t_500", 6}, {"t_850", 5}, {"sp", 5}}) {
    EXPECT_EQ(of_lead.at("variables").at(name).at("places_left_out"), starts * places) << name;
    EXPECT_EQ(of_lead.at("variables").at(name).at("fields_left_out"), 0) << name;
    EXPECT_EQ(of_lead.at("variables").at(name).at("places_without_truth"), 0) << name;
  }
}

// The start counts once where the two forecasts are the same; where they differ nobody can say which one is meant.
TEST_F(ScoredFile, AStartThatIsGivenTwiceCountsOnce) {
  write(header(40, 44), folder_ / "once.nc");
  ForecastHeader twice = header(40, 44);
  twice.starts.push_back(twice.starts[1]);
  twice.valid_times.insert(twice.valid_times.end(), {twice.valid_times[2], twice.valid_times[3]});
  for (const bool is_same : {true, false}) {
    const std::string path = folder_ / (is_same ? "twice.nc" : "differ.nc");
    const auto once = open_forecasts(folder_ / "once.nc");
    const auto writer = create_forecasts(path, twice);
    std::vector<float> values;
    for (size_t start = 0; start < twice.starts.size(); ++start) {
      for (size_t lead = 0; lead < twice.leads.size(); ++lead) {
        for (size_t field = 0; field < twice.fields.size(); ++field) {
          once->read(start == 4 ? 1 : start, lead, field, values);
          if (start == 4 && lead == 1 && field == 2 && !is_same) values[7] += 1;
          writer->write(start, lead, field, values);
        }
      }
    }
    writer->commit();
    const data::FieldsDataset data(prefix_);
    const auto file = open_forecasts(path);
    MatchedForecasts matched = match_forecasts(file->contents(), data, {});
    if (is_same) {
      EXPECT_EQ(leave_out_repeats(*file, data, matched), 1);
      EXPECT_THAT(matched.starts, ElementsAre(40, 41, 42, 43, -1));
    } else {
      EXPECT_THAT(data::user_error([&] { leave_out_repeats(*file, data, matched); }),
                  HasSubstr("has two forecasts of sp from the time 2000-01-11T06:00:00 of " + prefix_ +
                            ": as start 2, 2000-01-11T06:00:00, and as start 5, 2000-01-11T06:00:00"));
    }
  }
}

TEST_F(ScoredFile, RefusesAFileThatDoesNotFitWithNumbers) {
  ForecastHeader bad = header(40, 42);
  bad.grid.latitudes.back() = 80;
  EXPECT_THAT(refusal(bad), HasSubstr("has 6 latitudes from -75 to 80 and 11 longitudes from 0 to 327.273, and"));
  bad = header(40, 42);
  bad.leads = {6 * 3600, 9 * 3600};
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("leads of 9 h"), HasSubstr("--lead 6h")));
  EXPECT_EQ(refusal(bad, {.leads = {"6h"}}), "");
  bad.leads = {6 * 3600, 6 * 3600};
  EXPECT_THAT(refusal(bad), HasSubstr("has the lead 6h twice, as entries 1 and 2; leave one of them out"));
  bad.leads = {6 * 3600, 9 * 3600};
  EXPECT_THAT(refusal(bad, {.leads = {"12h"}}), HasSubstr("has no lead of 12h; it has 6h"));
  EXPECT_THAT(refusal(bad, {.leads = {"7h"}}), HasSubstr("--lead 7h is no multiple, from 6h on, of the 6 h between"));
  EXPECT_THAT(refusal(bad, {.leads = {"soon"}}), HasSubstr("--lead soon is no length of time"));
  bad = header(40, 42);
  bad.fields[2].name = "sq";
  EXPECT_THAT(refusal(bad), HasSubstr("has no variable sq (like sp?)"));
  EXPECT_EQ(refusal(bad, {.variables = {"t_500"}}), "");
  bad = header(40, 42);
  bad.fields[2].units = "hPa";
  EXPECT_THAT(refusal(bad), HasSubstr("has sp in hPa, and"));
  bad = header(40, 42);
  bad.calendar = data::Calendar::noleap;
  EXPECT_THAT(refusal(bad), HasSubstr("has the calendar noleap"));
}

TEST_F(ScoredFile, RefusesAFileWithoutForecasts) {
  EXPECT_THAT(data::user_error([&] { open_forecasts(prefix_ + ".nc"); }),
              HasSubstr("holds no forecasts: no variable has"));
  write(header(40, 42), folder_ / "whole.nc");
  const std::string whole = read_text(folder_ / "whole.nc");
  folder_.write("short.nc", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(data::user_error([&] { open_forecasts(folder_ / "short.nc"); }), HasSubstr("may be truncated"));
  folder_.write("text.nc", "no fields");
  EXPECT_THAT(data::user_error([&] { open_forecasts(folder_ / "text.nc"); }), HasSubstr("cannot be read as NetCDF"));
}

TEST_F(ScoredFile, NoClimatologyScoresWithoutATrainingPart) {
  data::prepare_fields({folder_ / "in.nc"}, folder_ / "later", {{"test", {"2000-01-11", "2000-01-15"}}});
  const data::FieldsDataset data(folder_ / "later");
  ForecastScorer scorer(data, {"test", {"sp"}, {1}}, [](uint64_t) {});
  scorer.add(45, 0, 0, data.field(45, data::FieldsDescription::find(data.description().variables, "sp")));
  const Json json = score_json(score_report(scorer, data, "persistence"));
  const Json& figures = json.at("variables").at("sp");
  EXPECT_EQ(figures.at("rmse"), figures.at("persistence_rmse"));
  for (const char* name : {"acc", "climatology_rmse", "damped_persistence_rmse", "damped_persistence_factor"}) {
    EXPECT_TRUE(figures.at(name).is_null()) << name;
  }
  EXPECT_THAT(data::user_error([&] {
                ForecastScorer(data, {"train", {"sp"}, {1}}, [](uint64_t) {});
              }),
              HasSubstr("has no train part; prepare it with --train FROM TO"));
}

}  // namespace
}  // namespace terrace::forecast
