// Searches folders for files of fields, and opens them by their names.
#include "terrace/data/fields/field_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "terrace/base/error.h"
#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/npz_fields.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> netcdf_endings = {".nc", ".nc4", ".cdf", ".netcdf"};

bool is_named_as_fields(const fs::path& path) {
  return std::ranges::find(netcdf_endings, path.extension().string()) != netcdf_endings.end() ||
         is_shard_of_fields(path);
}

bool is_excluded(const fs::path& path, const std::vector<fs::path>& excluded) {
  return std::ranges::any_of(excluded, [&](const fs::path& one) {
    std::error_code none;
    return fs::equivalent(path, one, none) && !none;
  });
}

// By the files with which a group or an array of version 2 or 3 begins.
void refuse_zarr(const fs::path& folder) {
  for (const char* name : {".zgroup", ".zarray", ".zmetadata", "zarr.json"}) {
    if (!fs::exists(folder / name)) continue;
    throw UserError::of(
        "{0} is a Zarr store, which is not read here; write it as NetCDF first, for example in Python by "
        "xarray.open_zarr(\"{0}\").to_netcdf(\"{1}.nc\")",
        folder.string(), (folder.parent_path() / folder.stem()).string());
  }
}

void add_field_files(const fs::path& folder, const std::vector<fs::path>& excluded, std::vector<fs::path>& files) {
  refuse_zarr(folder);
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  std::ranges::sort(entries);
  for (const fs::path& path : entries) {
    // A link to a folder may lead back up, so only real folders are entered.
    if (fs::is_directory(path) && !fs::is_symlink(path)) {
      add_field_files(path, excluded, files);
    } else if (fs::is_regular_file(path) && is_named_as_fields(path) && !is_excluded(path, excluded)) {
      files.push_back(path);
    }
  }
}

}  // namespace

std::vector<fs::path> find_field_files(const std::vector<std::string>& inputs, const std::vector<fs::path>& excluded) {
  std::vector<fs::path> files;
  for (const std::string& input : inputs) {
    const fs::path path(input);
    if (!fs::exists(path)) throw UserError::of("{} does not exist", input);
    if (fs::is_directory(path)) {
      add_field_files(path, excluded, files);
    } else if (!fs::is_regular_file(path)) {
      throw UserError::of("{} is neither a file nor a folder", input);
    } else if (is_excluded(path, excluded)) {
      throw UserError::of("{} is an input and the --output; choose another --output", input);
    } else {
      files.push_back(path);
    }
  }
  if (files.empty())
    throw UserError::of("no NetCDF file (.nc, .nc4, .cdf, .netcdf) and no shard YEAR_SHARD.npz in {}",
                        fmt::join(inputs, ", "));
  std::set<fs::path> seen;
  for (const fs::path& file : files) {
    if (!seen.insert(fs::canonical(file)).second) throw UserError::of("{} is given twice", file.string());
  }
  return files;
}

std::unique_ptr<FieldFile> open_field_file(const fs::path& path) {
  return path.extension() == ".npz" ? open_npz(path) : open_netcdf(path);
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
