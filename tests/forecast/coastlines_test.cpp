// Coastlines come to their places on the globe; lakes and what is no such file are left out.
#include "terrace/forecast/coastlines.h"

#include <gmock/gmock.h>
#include <netcdf.h>

#include <map>
#include <string>
#include <vector>

#include "tests/data/test_corpus.h"

namespace terrace::forecast {
namespace {

using testing::ElementsAre;

void write_lists(const std::string& path, const std::map<std::string, std::pair<int, std::vector<int>>>& lists) {
  int file = 0;
  ASSERT_EQ(nc_create(path.c_str(), NC_CLOBBER, &file), NC_NOERR);
  std::map<std::string, int> variables;
  for (const auto& [name, list] : lists) {
    int dimension = 0;
    ASSERT_EQ(nc_def_dim(file, ("size_of_" + name).c_str(), list.second.size(), &dimension), NC_NOERR);
    ASSERT_EQ(nc_def_var(file, name.c_str(), list.first, 1, &dimension, &variables[name]), NC_NOERR);
  }
  ASSERT_EQ(nc_enddef(file), NC_NOERR);
  for (const auto& [name, list] : lists) {
    ASSERT_EQ(nc_put_var_int(file, variables[name], list.second.data()), NC_NOERR);
  }
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

// Two bins of 180 degrees, the second one with a shore of three points and a lake of two.
TEST(Coastlines, LieWhereTheirBinsAre) {
  const data::TemporaryFolder folder;
  const std::string path = folder / "coast.nc";
  // Points, level and two sides of each segment; the parts of a bin are unsigned 16-bit numbers.
  write_lists(path, {{"Bin_size_in_minutes", {NC_INT, {180 * 60}}},
                     {"N_bins_in_360_longitude_range", {NC_INT, {2}}},
                     {"Id_of_first_segment_in_a_bin", {NC_INT, {0, 0}}},
                     {"N_segments_in_a_bin", {NC_SHORT, {0, 2}}},
                     {"Embedded_npts_levels_exit_entry_for_a_segment",
                      {NC_INT, {(3 << 9) + (1 << 6) + 9, (2 << 9) + (2 << 6)}}},
                     {"Id_of_first_point_in_a_segment", {NC_INT, {0, 3}}},
                     {"Relative_longitude_from_SW_corner_of_bin", {NC_SHORT, {0, 13107, -1, 5, 6}}},
                     {"Relative_latitude_from_SW_corner_of_bin", {NC_SHORT, {0, 26214, -13108, 5, 6}}}});
  EXPECT_THAT(read_coastlines(path), ElementsAre(ElementsAre(180, -90, 216, -18, 360, 54)));
}

TEST(Coastlines, NoneWithoutTheirFile) {
  const data::TemporaryFolder folder;
  EXPECT_TRUE(read_coastlines(folder / "absent.nc").empty());
  EXPECT_TRUE(read_coastlines(folder.write("text.nc", "no coast")).empty());
  const std::string path = folder / "other.nc";
  write_lists(path, {{"Bin_size_in_minutes", {NC_INT, {60}}}});
  EXPECT_TRUE(read_coastlines(path).empty());
}

}  // namespace
}  // namespace terrace::forecast
