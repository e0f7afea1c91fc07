// A variable with more dimensions than a field has is taken at one entry of each, by index or coordinate, or named with
// the dimension that keeps it out.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Dimension {
  size_t size = 1;
  std::vector<double> values = {};       // of its coordinate, if any
  std::vector<std::string> labels = {};  // a coordinate of strings
  std::string units = {};
};

// A file whose variables have the numbers 0, 1, 2 and so on in the order in which they are stored.
class ArrayFile {
 public:
  std::map<std::string, Dimension> dimensions = {
      {"time", {2, {0, 6}, {}, "hours since 2000-01-01"}},
      {"lat", {2, {-30, 30}, {}, "degrees_north"}},
      {"lon", {3, {0, 120, 240}, {}, "degrees_east"}},
      {"member", {3, {}, {}, ""}},
      {"expver", {2, {1, 5}, {}, ""}},
      {"name", {2, {}, {"land", "sea"}, ""}},
      {"one", {1, {7}, {}, ""}},
      {"height", {1, {2}, {}, "m"}},
      {"plev", {2, {50000, 85000}, {}, "Pa"}},
      {"issued", {2, {0, 12}, {}, "hours since 1999-12-01"}},
  };
  std::map<std::string, std::vector<std::string>> variables = {};

  std::string write(const std::string& path) const {
    int id = 0;
    check(nc_create(path.c_str(), NC_CLOBBER | NC_NETCDF4, &id));
    std::map<std::string, int> numbers;
    for (const auto& [name, dimension] : dimensions) {
      check(nc_def_dim(id, name.c_str(), dimension.size, &numbers[name]));
      if (!dimension.values.empty()) {
        const int variable = define(id, name, NC_DOUBLE, {numbers[name]}, dimension.units);
        check(nc_put_var_double(id, variable, dimension.values.data()));
      }
      if (!dimension.labels.empty()) {
        const int variable = define(id, name, NC_STRING, {numbers[name]}, "");
        std::vector<const char*> texts;
        for (const std::string& label : dimension.labels) texts.push_back(label.c_str());
        check(nc_put_var_string(id, variable, texts.data()));
      }
    }
    for (const auto& [name, names] : variables) {
      std::vector<int> list;
      size_t count = 1;
      for (const std::string& one : names) list.push_back(numbers.at(one)), count *= dimensions.at(one).size;
      std::vector<double> values(count);
      std::iota(values.begin(), values.end(), 0);
      check(nc_put_var_double(id, define(id, name, NC_FLOAT, list, "K"), values.data()));
    }
    check(nc_close(id));
    return path;
  }

 private:
  static void check(int status) {
    if (status != NC_NOERR) throw std::runtime_error(nc_strerror(status));
  }

  static int define(int id, const std::string& name, int type, const std::vector<int>& list, const std::string& units) {
    int variable = 0;
    check(nc_def_var(id, name.c_str(), type, static_cast<int>(list.size()), list.data(), &variable));
    if (!units.empty()) check(nc_put_att_text(id, variable, "units", units.size(), units.c_str()));
    return variable;
  }
};

// The first number of the field at each time.
std::vector<float> first_numbers(const std::string& prefix, const std::string& name) {
  const FieldsDataset dataset(prefix);
  const int64_t variable = FieldsDescription::find(dataset.description().variables, name);
  std::vector<float> numbers;
  for (int64_t time = 0; time < std::ssize(dataset.description().times); ++time) {
    const std::span<const float> field = dataset.field(time, variable);
    for (size_t i = 1; i < field.size(); ++i) EXPECT_EQ(field[i], field[0] + static_cast<float>(i));
    numbers.push_back(field[0]);
  }
  return numbers;
}

TEST(DimensionsOfFields, OneEntryIsTakenByIndexOrByCoordinate) {
  const TemporaryFolder folder;
  ArrayFile file;
  file.variables = {{"t", {"time", "member", "expver", "lat", "lon"}}, {"u", {"name", "time", "lat", "lon"}}};
  const std::string path = file.write(folder / "in.nc");
  prepare_fields({path}, folder / "index", {{"select", {"member=2", "expver=1", "name=0"}}});
  EXPECT_THAT(first_numbers(folder / "index", "t"), ElementsAre((2 * 2 + 1) * 6, ((3 + 2) * 2 + 1) * 6));
  EXPECT_THAT(first_numbers(folder / "index", "u"), ElementsAre(0, 6));
  prepare_fields({path}, folder / "value", {{"select", {"member=0", "expver=value:5.0", "name=value:sea"}}});
  EXPECT_THAT(first_numbers(folder / "value", "t"), ElementsAre(1 * 6, (3 * 2 + 1) * 6));
  EXPECT_THAT(first_numbers(folder / "value", "u"), ElementsAre(12, 18));
  const FieldsDescription description = read_fields_description(folder / "value.json");
  using Entries = std::map<std::string, DimensionEntry>;
  EXPECT_EQ(description.variables[0].entries, (Entries{{"expver", {1, "5"}}, {"member", {0, ""}}}));
  EXPECT_EQ(description.variables[1].entries, (Entries{{"name", {1, "sea"}}}));
}

TEST(DimensionsOfFields, OneOfLengthOneIsTakenAndOneWithoutAChoiceIsNamed) {
  const TemporaryFolder folder;
  ArrayFile file;
  file.variables = {{"t", {"time", "expver", "lat", "lon"}}, {"u", {"time", "one", "height", "plev", "lat", "lon"}}};
  const std::string path = file.write(folder / "in.nc");
  const std::string way_out = "--select expver=0, or another index up to 1, or --select expver=value:1";
  EXPECT_THAT(refused_fields(folder, {path}, {{"variables", {"t"}}}),
              AllOf(HasSubstr("in.nc: t has the dimension expver of size 2 (1, 5)"), HasSubstr(way_out)));
  const PrepareResult rest = prepare_fields({path}, folder / "p");
  EXPECT_EQ(rest.json["variables"], Json({"u_500", "u_850"}));
  EXPECT_EQ(rest.json["left_out"], Json({"t"}));
  EXPECT_THAT(first_numbers(folder / "p", "u_850"), ElementsAre(6, 18));
  EXPECT_TRUE(read_fields_description(folder / "p.json").variables[0].entries.empty());
  file.variables = {{"t", {"time", "member", "lat", "lon"}}};
  EXPECT_THAT(refused_fields(folder, {file.write(folder / "alone.nc")}),
              AllOf(HasSubstr("alone.nc: t has the dimension member of size 3; take one"), HasSubstr("member=0")));
  // Values that other files have of a variable must not be dropped.
  file.variables = {{"t", {"time", "lat", "lon"}}};
  file.dimensions["time"].values = {12, 18};
  EXPECT_THAT(refused_fields(folder, {path, file.write(folder / "later.nc")}),
              HasSubstr("in.nc: t has the dimension expver of size 2"));
}

TEST(DimensionsOfFields, OfTwoAxesOfTimesOneIsChosen) {
  const TemporaryFolder folder;
  ArrayFile file;
  file.variables = {{"t", {"time", "issued", "lat", "lon"}}};
  const std::string path = file.write(folder / "in.nc");
  EXPECT_THAT(refused_fields(folder, {path}), HasSubstr("t has the dimension issued of size 2 (0, 12)"));
  prepare_fields({path}, folder / "p", {{"select", {"issued=value:12"}}});
  EXPECT_THAT(first_numbers(folder / "p", "t"), ElementsAre(6, 18));
  EXPECT_EQ(read_fields_description(folder / "p.json").times[1], 946706400);  // 2000-01-01T06
  prepare_fields({path}, folder / "p", {{"select", {"time=1"}}});
  EXPECT_THAT(first_numbers(folder / "p", "t"), ElementsAre(12, 18));
}

TEST(DimensionsOfFields, WrongChoicesAreRefusedWithTheEntriesThereAre) {
  const TemporaryFolder folder;
  ArrayFile file;
  file.variables = {{"t", {"time", "expver", "lat", "lon"}}};
  const std::string path = file.write(folder / "in.nc");
  const auto refused = [&](const std::string& choice) {
    return refused_fields(folder, {path}, {{"select", {choice}}});
  };
  EXPECT_THAT(refused("expver=2"), HasSubstr("with --select expver=2: expver has 2 entries (1, 5)"));
  EXPECT_THAT(refused("expver=value:3"), HasSubstr("with --select expver=value:3: expver has 2 entries (1, 5)"));
  EXPECT_THAT(refused("lat=0"), HasSubstr("lat is its axis of the grid"));
  EXPECT_THAT(refused("time=0"), HasSubstr("time is its axis of times; choose times by --train"));
  for (const char* wrong : {"expver", "expver=", "expver=one", "=0", "expver=value:", "expver=-1"}) {
    EXPECT_THAT(refused(wrong), HasSubstr("is neither DIMENSION=INDEX")) << wrong;
  }
  EXPECT_THAT(refused_fields(folder, {path}, {{"select", {"expver=0", "expver=1"}}}), HasSubstr("expver twice"));
  EXPECT_THAT(refused_fields(folder, {path}, {{"select", {"expver=0", "member=0"}}}),
              AllOf(HasSubstr("--select member: no variable of the files has such a dimension"), HasSubstr("expver")));
  file.dimensions["expver"].values = {5, 1};
  file.dimensions["time"].values = {12, 18};
  const std::string turned = file.write(folder / "turned.nc");
  EXPECT_THAT(refused_fields(folder, {path, turned}, {{"select", {"expver=0"}}}),
              AllOf(HasSubstr("turned.nc: --select expver takes t at expver = 5, and at 1 in an earlier file"),
                    HasSubstr("expver=value:1")));
  prepare_fields({path, turned}, folder / "p", {{"select", {"expver=value:1"}}});
  EXPECT_THAT(first_numbers(folder / "p", "t"), ElementsAre(0, 12, 6, 18));
}

}  // namespace
}  // namespace terrace::data
