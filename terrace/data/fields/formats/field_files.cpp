// Says which files have fields, and opens them by their names.
#include "terrace/data/fields/formats/field_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/formats/npz_fields.h"
#include "terrace/data/fields/formats/zarr_store.h"
#include "terrace/data/folder_files.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> netcdf_endings = {".nc", ".nc4", ".cdf", ".netcdf"};

bool is_named_as_fields(const fs::path& path) {
  return std::ranges::find(netcdf_endings, path.extension().string()) != netcdf_endings.end() ||
         is_shard_of_fields(path);
}

}  // namespace

std::vector<fs::path> find_field_files(const std::vector<std::string>& inputs, const std::vector<fs::path>& excluded) {
  return find_named_files(
      inputs, excluded,
      {.words = fmt::format("NetCDF file ({}), Zarr store or shard YEAR_SHARD.npz", fmt::join(netcdf_endings, ", ")),
       .is_named = is_named_as_fields,
       .is_whole = is_zarr_store});
}

std::unique_ptr<FieldFile> open_field_file(const fs::path& path, const std::vector<DimensionChoice>& choices) {
  return path.extension() == ".npz" ? open_npz(path) : open_netcdf(path, choices);
}

std::vector<size_t> ascending_order(std::vector<double> values, bool are_longitudes, std::vector<double>& sorted) {
  if (are_longitudes) {
    for (double& value : values) value -= 360 * std::floor(value / 360);
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  sorted.clear();
  for (const size_t at : order) sorted.push_back(values[at]);
  return order;
}

}  // namespace terrace::data
