// Combines small fields of two models, whose figures are worked out by hand.
#include "terrace/ensemble/field_predictions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace::ensemble {
namespace {

// Two outputs, one of which has a level, on two latitudes and three longitudes.
forecast::ForecastHeader header() {
  return {.grid = {.latitudes = {0, 60}, .longitudes = {0, 120, 240}},
          .starts = {0, 3600},
          .leads = {3600},
          .valid_times = {3600, 7200},
          .fields = {{.name = "t_500", .variable = "t", .level = 500, .level_units = "hPa", .units = "K"},
                     {.name = "u", .variable = "u", .units = "m s**-1", .standard_name = "eastward_wind"}}};
}

TEST(FieldPredictions, WritesMeansSpreadsLabelsAndModels) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "f.nc";
  FieldPredictions predictions(path, header(), 2);
  const std::vector<float> first = {1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5};
  const std::vector<float> second = {3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5};
  for (const size_t start : {0, 1}) {
    predictions.add(0, start, 0, first);
    predictions.add(1, start, 0, second);
  }
  const std::vector<float> label = {2, 2, 2, 2, 2, 2};
  int taken = 0;
  predictions.combine(
      [&](size_t start, size_t, size_t) {
        return start == 0 ? std::span<const float>(label) : std::span<const float>();
      },
      [&](size_t start, size_t lead, size_t output, const Distribution& predicted, std::span<const float> known) {
        EXPECT_EQ(lead, 0u);
        EXPECT_EQ(predicted.mean, std::vector<double>(6, output == 0 ? 2 : 5));
        EXPECT_EQ(std::isnan(known[0]), start == 1) << "nothing is known of the second time";
        ++taken;
      });
  EXPECT_EQ(taken, 4);
  EXPECT_FALSE(std::filesystem::exists(path));
  predictions.commit();
  const auto file = forecast::open_forecasts(path);
  std::vector<std::string> names;
  for (const forecast::ForecastVariable& variable : file->contents().variables) names.push_back(variable.name);
  EXPECT_EQ(names, (std::vector<std::string>{"t_500", "u", "t_label_500", "u_label", "t_std_500", "u_std", "t_1_500",
                                             "u_1", "t_2_500", "u_2"}));
  const auto value = [&](size_t start, size_t variable) {
    std::vector<float> values;
    file->read(start, 0, variable, values);
    return values.at(4);
  };
  EXPECT_EQ(value(0, 0), 2);
  EXPECT_EQ(value(0, 2), 2);
  EXPECT_TRUE(std::isnan(value(1, 2)));
  EXPECT_EQ(value(1, 4), static_cast<float>(std::sqrt(2 * 1.5)));  // variance 2 of two models, times 1 + 1/2
  EXPECT_EQ(value(1, 5), 0);
  EXPECT_EQ(value(1, 6), 1);
  EXPECT_EQ(value(1, 8), 3);
}

TEST(FieldPredictions, OfOneModelHaveNoSpread) {
  const ScratchFolder folder;
  FieldPredictions predictions(folder / "f.nc", header(), 1);
  for (const size_t start : {0, 1}) predictions.add(0, start, 0, std::vector<float>(12, 7));
  predictions.combine([](size_t, size_t, size_t) { return std::span<const float>(); },
                      [](size_t, size_t, size_t, const Distribution& predicted, std::span<const float>) {
                        EXPECT_EQ(predicted.mean.at(5), 7);
                        EXPECT_EQ(predicted.deviation.at(5), 0);
                      });
  predictions.commit();
  EXPECT_EQ(forecast::open_forecasts(folder / "f.nc")->contents().variables.size(), 4u);
}

TEST(FieldPredictions, RefusesNamesThatAreTaken) {
  const ScratchFolder folder;
  forecast::ForecastHeader taken = header();
  taken.fields[0] = {.name = "u_std", .variable = "u_std"};
  try {
    FieldPredictions(folder / "f.nc", taken, 2);
    FAIL() << "two variables have one name";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("the name u_std"), std::string::npos);
  }
  EXPECT_NO_THROW(FieldPredictions(folder / "f.nc", taken, 1));
}

// The cosines of 0 and 60 degrees are 1 and 0.5: places count 4/3 and 2/3.
TEST(JudgedFields, WeightsPlacesByTheCosineOfTheirLatitude) {
  JudgedFields judged({.latitudes = {0, 60}, .longitudes = {0, 180}}, 1, 2, {2, 2});
  const std::vector<float> label = {0, 0, 0, 0};
  judged.add(0, 1, {.mean = {1, 1, 4, 4}, .deviation = {1, 1, 1, 1}}, label);
  const Json json = judged.json(0, 1);
  EXPECT_EQ(json.at("count"), 4);
  EXPECT_NEAR(json.at("mae").get<double>(), (2 * 1 + 1 * 4) / 3.0, 1e-12);
  EXPECT_NEAR(json.at("rmse").get<double>(), std::sqrt((2 * 1 + 1 * 16) / 3.0), 1e-12);
  EXPECT_NEAR(json.at("sharpness").get<double>(), 1, 1e-12);
  EXPECT_EQ(json.at("scale"), 2.0);
  EXPECT_NEAR(json.at("scaled").at("sharpness").get<double>(), 2, 1e-12);
  EXPECT_TRUE(judged.json(0, 0).at("mae").is_null());
  EXPECT_EQ(judged.fitted_scales().at(0), 1);
}

}  // namespace
}  // namespace terrace::ensemble
