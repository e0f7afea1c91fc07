// ClimaX's shards give the dataset that the same fields give as NetCDF, and what is missing or damaged is refused.
#include <gmock/gmock.h>

#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FieldShards : public testing::Test {
 protected:
  FieldShards() {
    const std::string command = tests::python() + " " + tests::source_dir().string() +
                                "/tests/data/fields_npz_cases.py " + folder_.path().string();
    if (std::system(command.c_str()) != 0) throw std::runtime_error("fields_npz_cases.py failed");
  }

  std::string shard(const std::string& name) const { return folder_ / "shards/train/" + name; }
  std::string refused() const {
    return refused_fields(folder_, {folder_ / "shards"}, {{"constants", {"orography"}}, {"allow-gaps", {}}});
  }

  TemporaryFolder folder_;
};

TEST_F(FieldShards, GiveTheDatasetOfTheSameFieldsAsNetcdf) {
  // The last day of the leap year 2000 would lie behind the last shard, and the year 2000 follows 1999 without a gap.
  const Flags flags = {{"constants", {"orography"}}, {"train", {"1999", "1999"}}};
  prepare_fields({folder_ / "shards"}, folder_ / "out/shards", flags);
  prepare_fields({folder_ / "netcdf_1999.nc", folder_ / "netcdf_2000.nc"}, folder_ / "out/netcdf", flags);
  const FieldsDataset shards(folder_ / "out/shards"), netcdf(folder_ / "out/netcdf");
  const FieldsDescription &a = shards.description(), &b = netcdf.description();
  EXPECT_EQ(a.times.size(), 40u);
  EXPECT_EQ(a.times, b.times);
  EXPECT_EQ(a.step.seconds, 438 * 3600);
  EXPECT_EQ(a.latitudes, b.latitudes);
  EXPECT_EQ(a.longitudes, b.longitudes);
  EXPECT_THAT(FieldsDescription::names(a.variables), ElementsAre("t2m", "geopotential_500"));
  EXPECT_THAT(FieldsDescription::names(a.constants), ElementsAre("orography"));
  EXPECT_EQ(a.fields.checksum, b.fields.checksum);
  EXPECT_EQ(a.constant_fields.checksum, b.constant_fields.checksum);
  EXPECT_EQ(a.climatology_fields.checksum, b.climatology_fields.checksum);
  EXPECT_EQ(a.variables[1].moments, b.variables[1].moments);
}

TEST_F(FieldShards, RefusesMissingOrDamagedShards) {
  const std::string whole = read_text(shard("1999_2.npz"));
  folder_.write("shards/train/1999_2.npz", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refused(), AllOf(HasSubstr("1999_2.npz is no whole zip archive"), HasSubstr("truncated or damaged")));
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 1);
  folder_.write("shards/train/1999_2.npz", damaged);
  EXPECT_THAT(refused(), AllOf(HasSubstr("1999_2.npz: "), HasSubstr("has a wrong checksum")));
  std::filesystem::rename(shard("1999_2.npz"), shard("1999_7.npz"));
  EXPECT_THAT(refused(), HasSubstr("the shard 2 of 1999 is not in its folder"));
  std::filesystem::remove(shard("1999_7.npz"));
  folder_.write("shards/train/1999_2.npz", whole);
  std::filesystem::remove(shard("2000_3.npz"));
  EXPECT_THAT(refused(), HasSubstr("2000 has 3 of the 4 shards that 1999 has"));
  std::filesystem::remove(folder_ / "shards/lat.npy");
  EXPECT_THAT(refused(), HasSubstr("has no lat.npy in its folder or the one above"));
}

}  // namespace
}  // namespace terrace::data
