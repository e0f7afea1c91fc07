// Leads are read and written in the units of the data's step.
#include "terrace/forecast/forecast_times.h"

#include <gtest/gtest.h>

namespace terrace::forecast {
namespace {

TEST(Leads, OfYearlyDataAreWholeYears) {
  const data::TimeStep year{.months = 12};
  EXPECT_EQ(year.steps(*lead_seconds("1y")), 1);
  EXPECT_EQ(year.steps(*lead_seconds("36mo")), 3);
  EXPECT_EQ(year.steps(*lead_seconds("6mo")), std::nullopt);
  EXPECT_EQ(lead_text(year, 3), "3y");
}

TEST(Leads, OfSeasonalDataAreMonths) { EXPECT_EQ(lead_text({.months = 3}, 4), "12mo"); }

}  // namespace
}  // namespace terrace::forecast
