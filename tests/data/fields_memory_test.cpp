// Preparing more times of fields takes no more memory.

#include <array>
#include <vector>

#include "tests/data/fields_files.h"
#include "tests/data/peak_memory.h"

namespace terrace::data {
namespace {

// A variable of so many times on 64 x 128 places, which are 32 KiB.
void write_fields(const std::string& path, size_t times) {
  const TestFile empty{.times = {}, .latitudes = {}, .longitudes = {}};
  empty.write(path);
  int file = 0, variable = 0;
  ASSERT_EQ(nc_open(path.c_str(), NC_WRITE, &file), NC_NOERR);
  nc_redef(file);
  const std::array<size_t, 3> sizes = {times, 64, 128};
  const std::array<const char*, 3> names = {"time", "lat", "lon"};
  const std::array<std::string, 3> units = {"hours since 2000-01-01", "degrees_north", "degrees_east"};
  std::array<int, 3> dimensions{}, coordinates{};
  for (size_t i = 0; i < 3; ++i) {
    nc_def_dim(file, names[i], sizes[i], &dimensions[i]);
    nc_def_var(file, names[i], NC_DOUBLE, 1, &dimensions[i], &coordinates[i]);
    nc_put_att_text(file, coordinates[i], "units", units[i].size(), units[i].c_str());
  }
  nc_def_var(file, "t", NC_FLOAT, 3, dimensions.data(), &variable);
  nc_enddef(file);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<double> values(sizes[i]);
    for (size_t entry = 0; entry < sizes[i]; ++entry) values[entry] = static_cast<double>(entry);
    nc_put_var_double(file, coordinates[i], values.data());
  }
  for (size_t time = 0; time < times; ++time) {
    const std::vector<float> field(sizes[1] * sizes[2], static_cast<float>(time));
    const std::array<size_t, 3> start = {time, 0, 0}, count = {1, sizes[1], sizes[2]};
    nc_put_vara_float(file, variable, start.data(), count.data(), field.data());
  }
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

// Peak resident memory of a process that prepares so many times.
int64_t peak_of_preparing_fields(size_t times) {
  const TemporaryFolder folder;
  const std::string path = folder / "in.nc";
  write_fields(path, times);
  return peak_memory_of([&] {
    const PrepareResult result = prepare_fields({path}, folder / "p");
    return result.json.at("times") == times;
  });
}

TEST(MemoryOfFields, BoundedForAnyNumberOfTimes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  // A block has 512 times. A further time may take some hundred bytes of the list of times; its field has 32 KiB.
  const int64_t little = peak_of_preparing_fields(1024), much = peak_of_preparing_fields(3072);
  EXPECT_LT(much - little, 8 << 20) << little << " bytes for 32 MiB, " << much << " for 96";
}

}  // namespace
}  // namespace terrace::data
