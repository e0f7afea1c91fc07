// Zarr stores of version 2 without compression give the dataset that NetCDF files with their values give; others, which
// libnetcdf reads wrongly, are refused by name.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "tests/data/fields_files.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

constexpr int times = 7, rows = 3, columns = 4;

double value_at(double time, double, double latitude, double longitude) { return time + latitude / 7 + longitude / 90; }

// A store as xarray writes it, with chunks of `chunk` times of a field of fp32 or, packed, of int16.
class Store {
 public:
  explicit Store(fs::path path) : path_(std::move(path)) {
    write_text(path_ / ".zgroup", R"({"zarr_format": 2})");
    add<int64_t>("time", {times}, times, {{"units", "hours since 2000-01-01"}, {"calendar", "standard"}}, {"time"},
                 [](size_t i) { return static_cast<int64_t>(6 * i); });
    add<double>("lat", {rows}, rows, {{"units", "degrees_north"}}, {"lat"},
                [](size_t i) { return 60 * static_cast<double>(i) - 60; });
    add<double>("lon", {columns}, columns, {{"units", "degrees_east"}}, {"lon"},
                [](size_t i) { return 90 * static_cast<double>(i); });
  }

  template <typename Number>
  void add(const std::string& name, const std::vector<size_t>& sizes, size_t chunk, Json attributes,
           const std::vector<std::string>& dimensions, const std::function<Number(size_t)>& number) {
    const size_t of_first = [&] {
      size_t product = 1;
      for (size_t i = 1; i < sizes.size(); ++i) product *= sizes[i];
      return product;
    }();
    std::vector<size_t> chunks = sizes;
    chunks.front() = chunk;
    const char kind = std::is_floating_point_v<Number> ? 'f' : 'i';
    const Json described = {{"zarr_format", 2},
                            {"shape", sizes},
                            {"chunks", chunks},
                            {"dtype", fmt::format("<{}{}", kind, sizeof(Number))},
                            {"fill_value", kind == 'f' ? Json("NaN") : Json(nullptr)},
                            {"order", "C"},
                            {"filters", nullptr},
                            {"compressor", nullptr},
                            {"dimension_separator", "."}};
    write_text(path_ / name / ".zarray", described.dump());
    attributes["_ARRAY_DIMENSIONS"] = dimensions;
    write_text(path_ / name / ".zattrs", attributes.dump());
    for (size_t first = 0; first < sizes.front(); first += chunk) {
      std::vector<Number> values(chunk * of_first);  // beyond the last time too
      for (size_t i = 0; i < values.size() && first * of_first + i < sizes.front() * of_first; ++i) {
        values[i] = number(first * of_first + i);
      }
      std::string bytes(values.size() * sizeof(Number), '\0');
      std::memcpy(bytes.data(), values.data(), bytes.size());
      std::string chunk_name = std::to_string(first / chunk);
      for (size_t i = 1; i < sizes.size(); ++i) chunk_name += ".0";
      write_text(path_ / name / chunk_name, bytes);
    }
  }

  void add_field(const std::string& name) {
    add<float>(name, {times, rows, columns}, 3, {{"units", "K"}}, {"time", "lat", "lon"}, [](size_t i) {
      const size_t time = i / (rows * columns), row = i / columns % rows, column = i % columns;
      return static_cast<float>(value_at(6 * static_cast<double>(time), 0, 60 * static_cast<double>(row) - 60,
                                         90 * static_cast<double>(column)));
    });
  }

  void change(const std::string& array, const std::string& key, const Json& value) const {
    Json described = Json::parse(read_text(path_ / array / ".zarray"));
    described[key] = value;
    write_text(path_ / array / ".zarray", described.dump());
  }

  void set_attribute(const std::string& array, const std::string& key, const Json& value) const {
    Json attributes = Json::parse(read_text(path_ / array / ".zattrs"));
    attributes[key] = value;
    write_text(path_ / array / ".zattrs", attributes.dump());
  }

  const fs::path& path() const { return path_; }

 private:
  static void write_text(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    write_text_atomically(path, text);
  }

  fs::path path_;
};

TEST(FieldsOfZarr, AreThoseOfNetcdf) {
  const TemporaryFolder folder;
  TestFile file;
  file.times.clear();
  for (int time = 0; time < times; ++time) file.times.push_back(6 * time);
  file.variables = {{.name = "t", .value = value_at}};
  prepare_fields({file.write(folder / "in.nc")}, folder / "netcdf");
  Store store(folder.path() / "in/era 5.zarr");
  store.add_field("t");
  for (const std::string& input :
       {std::string("in"), std::string("in/era 5.zarr")}) {  // found in a folder, or an input itself
    prepare_fields({folder / input}, folder / "zarr");
    const FieldsDescription expected = read_fields_description(folder / "netcdf.json"),
                            found = read_fields_description(folder / "zarr.json");
    EXPECT_EQ(found.times, expected.times);
    EXPECT_EQ(found.latitudes, expected.latitudes);
    EXPECT_EQ(found.longitudes, expected.longitudes);
    EXPECT_EQ(found.variables[0].units, "K");
    EXPECT_EQ(found.fields.checksum, expected.fields.checksum);
    EXPECT_EQ(found.climatology_fields.checksum, expected.climatology_fields.checksum);
  }
}

TEST(FieldsOfZarr, ChunksThatAreNotThereAreMissingValues) {
  const TemporaryFolder folder;
  Store store(folder.path() / "in.zarr");
  store.add_field("t");
  fs::remove(store.path() / "t/1.0.0");
  EXPECT_THAT(refused_fields(folder, {store.path()}),
              HasSubstr("t at 2000-01-01T18:00:00 has 12 of 12 values missing"));
  prepare_fields({store.path()}, folder / "p", {{"mask", {}}});
  const FieldsDataset dataset(folder / "p");
  EXPECT_FALSE(std::isnan(dataset.field(2, 0)[0]));
  EXPECT_TRUE(std::isnan(dataset.field(3, 0)[0]));
  EXPECT_FALSE(std::isnan(dataset.field(6, 0)[0]));
}

TEST(FieldsOfZarr, TheFillValueOfAnArrayIsMissing) {
  const TemporaryFolder folder;
  Store store(folder.path() / "in.zarr");
  store.add_field("t");
  store.change("t", "fill_value", value_at(6, 0, 0, 180));
  EXPECT_THAT(refused_fields(folder, {store.path()}), HasSubstr("t at 2000-01-01T06:00:00 has 1 of 12 values missing"));
}

TEST(FieldsOfZarr, AttributesThatLibnetcdfCannotReadAreNamed) {
  const TemporaryFolder folder;
  Store store(folder.path() / "in.zarr");
  store.add_field("t");
  // libnetcdf reads 17 for the second number.
  store.set_attribute("t", "missing_value", Json::array({1000, value_at(6, 0, 60, 270)}));
  EXPECT_THAT(refused_fields(folder, {store.path()}), HasSubstr("t at 2000-01-01T06:00:00 has 1 of 12 values missing"));
  store.set_attribute("t", "missing_value", 1000);
  prepare_fields({store.path()}, folder / "p");
  store.set_attribute("t", "valid_range", {0, 300});
  EXPECT_THAT(refused_fields(folder, {store.path()}),
              AllOf(HasSubstr("this libnetcdf does not open it"), HasSubstr("t valid_range = [0,300]")));
}

TEST(FieldsOfZarr, WhatIsReadWronglyIsRefused) {
  const TemporaryFolder folder;
  Store store(folder.path() / "in.zarr");
  for (const char* name : {"t", "u", "v", "w", "z"}) store.add_field(name);
  store.change("t", "compressor", {{"id", "blosc"}, {"cname", "lz4"}});
  store.change("u", "dtype", ">f4");
  store.change("v", "order", "F");
  store.change("w", "filters", {{{"id", "delta"}}});
  fs::resize_file(store.path() / "z/0.0.0", 20);
  const std::string refused = refused_fields(folder, {store.path()});
  for (const char* text : {"5 Zarr arrays that cannot be read", "t is compressed with blosc (lz4)",
                           "u has the type \">f4\"", "v has the order of Fortran", "w has filters (delta)",
                           "z has a chunk 0.0.0 of 20 bytes, and each chunk has 144",
                           "in.nc\"), or as Zarr of version 2 without compression"}) {
    EXPECT_THAT(refused, HasSubstr(text));
  }
  folder.write("three.zarr/zarr.json", "{}");
  folder.write("three.zarr/t/zarr.json",
               R"({"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "bytes"},
                   {"name": "blosc", "configuration": {"cname": "zstd"}}]}}]})");
  EXPECT_THAT(refused_fields(folder, {folder / "three.zarr"}),
              AllOf(HasSubstr("three.zarr is a Zarr store of version 3"), HasSubstr("three.nc\")"),
                    HasSubstr("t has the codecs sharding_indexed (bytes, blosc (zstd))")));
  fs::rename(store.path(), folder.path() / "a#b.zarr");
  for (const char* name : {"t", "u", "v", "w", "z"}) fs::remove_all(folder.path() / "a#b.zarr" / name);
  EXPECT_THAT(refused_fields(folder, {folder / "a#b.zarr"}), HasSubstr("whose path has \"#\""));
}

}  // namespace
}  // namespace terrace::data
