// The climatology that is smoothed by harmonics of the year: the fit itself, and what a prepared dataset has.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/fields/statistics/annual_harmonics.h"
#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

double angle(size_t period, size_t periods) {
  return 2 * std::numbers::pi * (static_cast<double>(period) + 0.5) / static_cast<double>(periods);
}

TEST(AnnualHarmonics, FindTheWavesThatTheValuesAreMadeOf) {
  const auto wave = [](size_t p) { return 7 + 3 * std::cos(angle(p, 12)) - 2 * std::sin(2 * angle(p, 12)); };
  // The months have different numbers of values, and one has none.
  const std::vector<uint32_t> counts = {3, 1, 2, 0, 5, 1, 1, 2, 3, 1, 4, 2};
  std::vector<double> sums(12), fitted(12);
  for (size_t p = 0; p < 12; ++p) sums[p] = wave(p) * counts[p];
  AnnualHarmonics(12, 2).fit(sums, counts, fitted);
  for (size_t p = 0; p < 12; ++p) EXPECT_NEAR(fitted[p], wave(p), 1e-12) << p;
}

// The rest is orthogonal to the fitted waves, as no other coefficients could be better.
TEST(AnnualHarmonics, LeaveWhatNoneOfTheirWavesHas) {
  std::vector<double> sums(12), fitted(12);
  const std::vector<uint32_t> counts = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6};
  for (size_t p = 0; p < 12; ++p) sums[p] = std::sin(static_cast<double>(p * p)) * counts[p];
  AnnualHarmonics(12, 1).fit(sums, counts, fitted);
  double constant = 0, cosine = 0, sine = 0;
  for (size_t p = 0; p < 12; ++p) {
    const double left = sums[p] - counts[p] * fitted[p];
    constant += left;
    cosine += left * std::cos(angle(p, 12));
    sine += left * std::sin(angle(p, 12));
  }
  EXPECT_NEAR(constant, 0, 1e-12);
  EXPECT_NEAR(cosine, 0, 1e-12);
  EXPECT_NEAR(sine, 0, 1e-12);
}

TEST(AnnualHarmonics, MeanWhereTheYearIsUnknown) {
  std::vector<double> sums(12), fitted(12);
  std::vector<uint32_t> counts(12);
  // Six months in a row, too few for three harmonics and too close for two.
  for (size_t p = 0; p < 6; ++p) {
    counts[p] = 2;
    sums[p] = 2.0 * static_cast<double>(p);
  }
  for (const int64_t harmonics : {0, 2, 3}) {
    AnnualHarmonics(12, harmonics).fit(sums, counts, fitted);
    EXPECT_THAT(fitted, testing::Each(testing::DoubleEq(2.5))) << harmonics;
  }
  AnnualHarmonics(12, 1).fit(std::vector<double>(12), std::vector<uint32_t>(12), fitted);
  EXPECT_TRUE(std::isnan(fitted[3]));
}

// Three years of one time a month, whose values have a wave of the year and one that no harmonic of the fit has.
TestFile three_years() {
  TestFile file{.time_units = "days since 2001-01-15", .calendar = "360_day"};
  file.times.clear();
  for (int month = 0; month < 36; ++month) file.times.push_back(30 * month);
  file.variables = {{.name = "t", .value = [](double time, double, double latitude, double) {
                       const double month = time / 30;
                       return latitude + std::cos(angle(static_cast<size_t>(month), 12)) +
                              0.5 * std::cos(6 * std::numbers::pi * month / 12);
                     }}};
  return file;
}

TEST(PrepareFields, SmoothsTheClimatologyByHarmonics) {
  const TemporaryFolder folder;
  const std::string input = three_years().write(folder / "in.nc");
  prepare_fields({input}, folder / "p", {{"harmonics", {"1"}}});
  const FieldsDataset smooth(folder / "p");
  EXPECT_EQ(smooth.description().harmonics, 1);
  prepare_fields({input}, folder / "raw", {});
  const FieldsDataset raw(folder / "raw");
  EXPECT_EQ(raw.description().harmonics, std::nullopt);
  for (int64_t month = 0; month < 12; ++month) {
    const double wave = std::cos(angle(static_cast<size_t>(month), 12));
    EXPECT_NEAR(smooth.climatology(month, 0)[9], 60 + wave, 1e-4) << month;
    EXPECT_NEAR(raw.climatology(month, 0)[9], 60 + wave + 0.5 * std::cos(std::numbers::pi * month / 2), 1e-4) << month;
  }
  prepare_fields({input}, folder / "mean", {{"harmonics", {"0"}}});
  const FieldsDataset mean(folder / "mean");
  for (int64_t month = 0; month < 12; ++month) EXPECT_NEAR(mean.climatology(month, 0)[9], 60, 1e-4);
}

// In a climatology by days each time of the day has harmonics of its own.
TEST(PrepareFields, FitsHarmonicsToEachTimeOfTheDay) {
  const TemporaryFolder folder;
  TestFile file{.time_units = "hours since 2001-01-01", .calendar = "360_day"};
  file.times.clear();
  for (int i = 0; i < 720; ++i) file.times.push_back(12 * i);
  file.variables = {{.name = "t", .value = [](double time, double, double, double) {
                       const bool is_noon = std::fmod(time, 24) > 0;
                       const double day = std::floor(time / 24);
                       return is_noon ? 10 + std::sin(angle(static_cast<size_t>(day), 360)) : day < 180 ? 1.0 : -1.0;
                     }}};
  prepare_fields({file.write(folder / "in.nc")}, folder / "p", {{"climatology", {"daily"}}, {"harmonics", {"1"}}});
  const FieldsDataset dataset(folder / "p");
  for (const int64_t day : {0, 77, 359}) {
    const double sine = std::sin(angle(static_cast<size_t>(day), 360));
    // The first harmonic of a wave that is 1 and then -1 is 4 / pi.
    EXPECT_NEAR(dataset.climatology(2 * day, 0)[5], 4 / std::numbers::pi * sine, 1e-3) << day;
    EXPECT_NEAR(dataset.climatology(2 * day + 1, 0)[5], 10 + sine, 1e-5) << day;
  }
}

TEST(PrepareFields, RefusesHarmonicsThatTheDataDoNotDetermine) {
  const TemporaryFolder folder;
  const std::string input = three_years().write(folder / "in.nc");
  EXPECT_THAT(refused_fields(folder, {input}, {{"harmonics", {"5"}}}), HasSubstr("from 0 (its mean) to 4"));
  EXPECT_THAT(refused_fields(folder, {input}, {{"harmonics", {"two"}}}), HasSubstr("--harmonics two"));
  EXPECT_THAT(refused_fields(folder, {input}, {{"climatology", {"none"}}, {"harmonics", {"1"}}}),
              HasSubstr("--climatology none makes none"));
  EXPECT_THAT(refused_fields(folder, {input}, {{"train", {"2001-01", "2001-06"}}, {"harmonics", {"1"}}}),
              HasSubstr("goes over 150 days"));
}

}  // namespace
}  // namespace terrace::data
