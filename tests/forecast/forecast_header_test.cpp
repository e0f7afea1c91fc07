// A file of forecasts has the starts, leads and predicted times of its plan.
#include "terrace/forecast/forecast_header.h"

#include <gmock/gmock.h>

#include "tests/data/fields_files.h"

namespace terrace::forecast {
namespace {

using testing::ElementsAre;

TEST(ForecastHeaders, HaveTheTimesOfThePlanAndTheOutputs) {
  const data::TemporaryFolder folder;
  data::prepare_fields({data::file_of_waves().write(folder / "in.nc")}, folder / "p",
                       {{"train", {"2000-01-01", "2000-01-25"}}});
  const data::FieldsSource source({.fields = folder / "p", .leads = {6 * 3600}},
                                  {.inputs = {"u", "t"}, .outputs = {"t"}, .counts = {12, 1}}, 1);
  // The data have a time every 6 hours from the beginning of the year 2000 on.
  const ForecastHeader header = forecast_header(source, {.starts = {4, 99}, .leads = {1, 4}}, "a model");
  constexpr int64_t hour = 3600, begin = 946684800;
  EXPECT_THAT(header.leads, ElementsAre(6 * hour, 24 * hour));
  EXPECT_THAT(header.starts, ElementsAre(begin + 24 * hour, begin + 594 * hour));
  EXPECT_THAT(header.valid_times,
              ElementsAre(begin + 30 * hour, begin + 48 * hour, begin + 600 * hour, begin + 618 * hour));
  ASSERT_EQ(header.fields.size(), 1u);
  EXPECT_EQ(header.fields[0].name, "t");
  EXPECT_EQ(header.grid.latitudes, source.description().latitudes);
  EXPECT_EQ(header.source, "a model");
}

}  // namespace
}  // namespace terrace::forecast
