// Eleven years of monthly winds, as tools/winds fetches them: errors of persistence and climatology are those that are
// known of them.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "terrace/data/fields/fields_source.h"
#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Below .deps, where the build keeps what it fetches.
std::string fetched_winds() {
  const std::filesystem::path path = tests::source_dir() / ".deps/winds/monthly_navy_winds.cdf";
  if (std::filesystem::exists(path)) return path.string();
  const std::string command = (tests::source_dir() / "tools/winds").string() + " '" + path.string() + "' >/dev/null";
  return std::system(command.c_str()) == 0 ? path.string() : "";
}

std::vector<float> tensor(const MicroBatch& batch, const std::string& name) {
  std::vector<float> values(batch.tensors.at(name).bytes.size() / sizeof(float));
  std::memcpy(values.data(), batch.tensors.at(name).bytes.data(), batch.tensors.at(name).bytes.size());
  return values;
}

// The root of the mean squared difference of normalised fields, weighted by latitude, in the units of the variable.
double weighted_error(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& weights,
                      double deviation) {
  double sum = 0;
  const size_t columns = a.size() / weights.size();
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = (static_cast<double>(a[i]) - static_cast<double>(b[i])) * deviation;
    sum += difference * difference * static_cast<double>(weights[i / columns]);
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST(FieldsOfWinds, PersistenceAndClimatologyHaveTheirKnownErrors) {
  const std::string winds = fetched_winds();
  if (winds.empty()) GTEST_SKIP() << "the package with the winds cannot be fetched";
  const TemporaryFolder folder;
  prepare_fields({winds}, folder / "winds", {{"train", {"1982", "1990"}}, {"test", {"1991", "1992"}}});
  const FieldsConfig config{.fields = folder / "winds", .leads = {30 * 86400.0}, .held_out_split = "test"};
  const FieldsDescription all = read_fields_description(folder / "winds.json");
  EXPECT_EQ(all.step, (TimeStep{.months = 1}));
  EXPECT_FALSE(all.has_missing);
  EXPECT_EQ(all.variables[0].units, "M/S");
  EXPECT_EQ(all.longitudes.front(), 0);
  EXPECT_EQ(all.splits.at("train").count(), 108);
  EXPECT_EQ(all.splits.at("test").count(), 24);
  const std::vector<double> persistence = {2.342, 1.837}, climatology = {2.046, 1.631};
  const std::vector<std::string> names = {"UWND", "VWND"};
  for (size_t wind = 0; wind < 2; ++wind) {
    const FieldsSource source(config, {.inputs = names, .outputs = {names[wind]}}, 1);
    EXPECT_EQ(source.held_out_pairs(), 24u);
    double of_persistence = 0, of_climatology = 0;
    for (int64_t month = 108; month < 132; ++month) {
      const MicroBatch batch =
          source.batch({{month - 1, month}}, {0}, {"before", "targets", "climatology", "weights", "leads"});
      EXPECT_THAT(tensor(batch, "leads"), ElementsAre(730.5));
      const double deviation = source.moments_of_output(0).deviation;
      const std::vector<float> weights = tensor(batch, "weights"), targets = tensor(batch, "targets");
      of_persistence += weighted_error(tensor(batch, "before"), targets, weights, deviation) / 24;
      of_climatology += weighted_error(tensor(batch, "climatology"), targets, weights, deviation) / 24;
    }
    // Known to three decimals.
    EXPECT_NEAR(of_persistence, persistence[wind], 5.1e-4) << names[wind];
    EXPECT_NEAR(of_climatology, climatology[wind], 5.1e-4) << names[wind];
  }
}

}  // namespace
}  // namespace terrace::data
