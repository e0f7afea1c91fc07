// Packed and missing values of NetCDF files and Zarr stores are those that netCDF4 and xarray decode, and those that
// the conventions define where these two do not follow them.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string run_packing_cases(const TemporaryFolder& folder, const std::string& what) {
  return run_python(
      folder, "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n",
      {tests::source_dir().string() + "/tests/data/fields_packing_cases.py", what, folder.path().string()});
}

TEST(PackedFields, EveryCombinationOfAttributesAndTypesIsThatOfNetcdf4AndXarray) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_packing_cases(folder, "write"), "");
  size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("NETCDF")) continue;
    prepare_fields({entry.path().string()}, folder / "out" + "/" + name + ".nc", {{"mask", {}}});
    ++inputs;
  }
  EXPECT_EQ(inputs, 6u);
  EXPECT_THAT(run_packing_cases(folder, "compare"),
              AllOf(HasSubstr("252 netCDF4"), HasSubstr("48 xarray"), HasSubstr("300 all"), HasSubstr("50 Zarr")));
}

TestVariable stored_times(const std::string& name) {
  return {.name = name, .value = [](double time, double, double, double) { return time; }, .type = NC_SHORT};
}

TEST(PackedFields, NumbersThatAreWrittenAsTextCount) {
  const TemporaryFolder folder;
  TestFile file{.variables = {stored_times("t")}};
  file.variables[0].texts = {{"units", "K"}, {"scale_factor", "0.5"}, {"missing_value", "6, 12"}, {"valid_max", " 17"}};
  prepare_fields({file.write(folder / "text.nc")}, folder / "p", {{"mask", {}}});
  const FieldsDataset dataset(folder / "p");
  EXPECT_EQ(dataset.field(0, 0)[0], 0);
  for (const int64_t time : {1, 2, 3}) EXPECT_TRUE(std::isnan(dataset.field(time, 0)[0])) << time;
}

TEST(PackedFields, AttributesThatAreNoNumbersAreRefusedByVariable) {
  const TemporaryFolder folder;
  TestFile file{.variables = {stored_times("t"), stored_times("u"), stored_times("v")}};
  file.variables[0].texts["scale_factor"] = "half";
  file.variables[1].texts["valid_range"] = "0 50 100";
  const std::string path = file.write(folder / "wrong.nc");
  EXPECT_THAT(refused_fields(folder, {path}, {{"variables", {"t", "u", "v"}}}),
              AllOf(HasSubstr("2 variables that cannot be taken"),
                    HasSubstr("wrong.nc: t has the attribute scale_factor = \"half\", which is no number"),
                    HasSubstr("wrong.nc: u has 3 numbers in its attribute valid_range, which must have 2")));
  prepare_fields({path}, folder / "p", {{"variables", {"v"}}});
  EXPECT_EQ(read_fields_description(folder / "p.json").variables.size(), 1u);
  const PrepareResult rest = prepare_fields({path}, folder / "p");  // what is left out is said
  EXPECT_EQ(rest.json["left_out"], Json({"t", "u"}));
}

}  // namespace
}  // namespace terrace::data
