// Reads the descriptions of arrays.
#include "terrace/data/fields/zarr_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/json.h"
#include "terrace/base/problem_list.h"

namespace terrace::data {
namespace {

constexpr const char* array_file = ".zarray";

// Bytes of a number of a type such as "<f4"; 0 for types that are no little-endian numbers.
uint64_t bytes_of_type(const std::string& type) {
  if (type.size() < 3 || (type[0] != '<' && type[0] != '|') || (type[1] != 'f' && type[1] != 'i' && type[1] != 'u')) {
    return 0;
  }
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(type.data() + 2, type.data() + type.size(), bytes);
  return error == std::errc() && end == type.data() + type.size() ? bytes : 0;
}

bool is_null(const Json& json, const char* key) { return !json.contains(key) || json.at(key).is_null(); }

// What is wrong with the array of a folder, or "".
std::string problem_with_array(const std::filesystem::path& folder) {
  const Json json = parse_json_or_discard(read_text(folder / array_file));
  try {
    const std::string type = json.at("dtype").is_string() ? json.at("dtype").get<std::string>() : "";
    if (!is_null(json, "compressor")) {
      return fmt::format("is compressed with {}", json.at("compressor").value("id", "an unknown codec"));
    }
    if (!is_null(json, "filters")) return "has filters";
    if (json.at("order") != "C") return "has the order of Fortran";
    uint64_t chunk_bytes = bytes_of_type(type);
    if (chunk_bytes == 0)
      return fmt::format("has the type {}, which is no little-endian number", json.at("dtype").dump());
    for (const Json& size : json.at("chunks")) chunk_bytes *= size.get<uint64_t>();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().filename().string().starts_with('.')) continue;
      if (entry.file_size() == chunk_bytes) continue;
      return fmt::format("has a chunk {} of {} bytes, and each chunk has {}; copy it again",
                         entry.path().lexically_relative(folder).string(), entry.file_size(), chunk_bytes);
    }
  } catch (const Json::exception&) {
    return fmt::format("has a damaged {}", array_file);
  }
  return "";
}

}  // namespace

bool is_zarr_store(const std::filesystem::path& folder) {
  constexpr std::array<const char*, 4> names = {".zgroup", array_file, ".zmetadata", "zarr.json"};
  return std::ranges::any_of(names, [&](const char* name) { return std::filesystem::exists(folder / name); });
}

void check_zarr_store(const std::filesystem::path& folder) {
  const std::string store = folder.string();
  const std::string way_out = fmt::format(
      "write it as NetCDF, for example in Python by xarray.open_zarr(\"{}\").to_netcdf(\"{}.nc\"), or as Zarr of "
      "version 2 "
      "without compression",
      store, (folder.parent_path() / folder.stem()).string());
  if (!std::filesystem::exists(folder / ".zgroup")) {
    throw UserError::of("{} is a Zarr store of version 3 or without a group, and only groups of version 2 are read; {}",
                        store, way_out);
  }
  std::vector<std::string> problems;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!std::filesystem::exists(entry.path() / array_file)) continue;
    const std::string problem = problem_with_array(entry.path());
    if (problem.empty()) continue;
    problems.push_back(fmt::format("{} {}", entry.path().string(), problem));
  }
  std::ranges::sort(problems);
  if (!problems.empty()) problems.front() += "; " + way_out;
  throw_problems(problems, "Zarr arrays that cannot be read");
}

std::string netcdf_name_of_zarr(const std::filesystem::path& folder) {
  const std::string path = std::filesystem::absolute(folder).string();
  if (const size_t at = path.find_first_of("#?&[]%"); at != std::string::npos) {
    throw UserError::of("{}: a Zarr store whose path has \"{}\" cannot be opened; rename it", path, path[at]);
  }
  return fmt::format("file://{}#mode=zarr,file", path);
}

std::string state_of_zarr(const std::filesystem::path& folder) {
  uint64_t files = 0, bytes = 0;
  int64_t newest = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    bytes += entry.file_size();
    newest = std::max<int64_t>(newest, entry.last_write_time().time_since_epoch().count());
  }
  return fmt::format("{} {} {}", files, bytes, newest);
}

}  // namespace terrace::data
