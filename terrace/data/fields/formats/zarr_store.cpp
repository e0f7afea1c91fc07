// Reads the descriptions of arrays.
#include "terrace/data/fields/formats/zarr_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

constexpr const char* array_file = ".zarray";
constexpr const char* attributes_file = ".zattrs";
constexpr const char* file_of_version_3 = "zarr.json";

// Returns the bytes of a number of a type such as "<f4"; 0 for types that are no little-endian numbers.
uint64_t bytes_of_type(const std::string& type) {
  if (type.size() < 3 || (type[0] != '<' && type[0] != '|') || (type[1] != 'f' && type[1] != 'i' && type[1] != 'u')) {
    return 0;
  }
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(type.data() + 2, type.data() + type.size(), bytes);
  return error == std::errc() && end == type.data() + type.size() ? bytes : 0;
}

bool is_null(const Json& json, const char* key) { return !json.contains(key) || json.at(key).is_null(); }

// Names a codec and the compressor in it, "blosc (lz4)", in version 2 and 3.
std::string codec_text(const Json& codec) {
  if (!codec.is_object()) return codec.is_string() ? codec.get<std::string>() : "an unknown codec";
  const std::string name = codec.value("id", codec.value("name", "an unknown codec"));
  const Json inner = codec.value("configuration", codec);
  const auto compressor = inner.find("cname");
  if (compressor != inner.end() && compressor->is_string()) {
    return fmt::format("{} ({})", name, compressor->get<std::string>());
  }
  std::vector<std::string> parts;
  for (const Json& part : inner.value("codecs", Json::array())) parts.push_back(codec_text(part));
  return parts.empty() ? name : fmt::format("{} ({})", name, fmt::join(parts, ", "));
}

// Names the arrays of a store of version 3 with their codecs: "t2m has the codecs bytes, zstd"; "" where there are
// none.
std::string codecs_of_version_3(const std::filesystem::path& folder) {
  std::vector<std::string> arrays;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path described = entry.path() / file_of_version_3;
    if (!std::filesystem::exists(described)) continue;
    const Json json = parse_json_or_discard(read_text(described));
    if (!json.is_object() || !json.contains("codecs") || !json.at("codecs").is_array()) continue;
    std::vector<std::string> codecs;
    for (const Json& codec : json.at("codecs")) codecs.push_back(codec_text(codec));
    arrays.push_back(fmt::format("{} has the codecs {}", entry.path().filename().string(), fmt::join(codecs, ", ")));
  }
  std::ranges::sort(arrays);
  return fmt::format("{}", fmt::join(arrays, ", "));
}

// Replaces NaN, Infinity and -Infinity, which no JSON has, by null, which is read as these too. Python writes them for
// numbers that mean none and no limit.
std::string with_null_for_nan(const std::string& text) {
  constexpr std::array<std::string_view, 3> words = {"-Infinity", "Infinity", "NaN"};
  std::string json;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto word = std::ranges::find_if(words, [&](std::string_view one) { return rest.starts_with(one); });
    if (!in_string && word != words.end()) {
      json += "null";
      at += word->size() - 1;
      continue;
    }
    if (in_string && text[at] == '\\' && at + 1 < text.size()) json += text[at++];
    if (text[at] == '"') in_string = !in_string;
    json += text[at];
  }
  return json;
}

// Returns the object in a file; an empty one where the file is missing.
Json object_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  Json json = parse_json_or_discard(with_null_for_nan(read_text(path)));
  if (!json.is_object()) throw UserError::of("{} is damaged; copy it again", path.string());
  return json;
}

// Returns whether libnetcdf refuses the value together with the whole store: null, lists that are empty or hold
// anything but numbers, and lists of whole numbers of which a later one may not fit the type of the first.
bool is_unusual(const Json& value) {
  if (!value.is_array()) return value.is_null();
  double largest = 0;
  for (const Json& one : value) {
    if (!one.is_number()) return true;
    if (one.is_number_integer()) largest = std::max(largest, std::abs(one.get<double>()));
  }
  return value.empty() || (value.size() > 1 && largest > 127);
}

// Returns what is wrong with the array of a folder, or "".
std::string problem_with_array(const std::filesystem::path& folder) {
  const Json json = parse_json_or_discard(read_text(folder / array_file));
  try {
    const std::string type = json.at("dtype").is_string() ? json.at("dtype").get<std::string>() : "";
    if (!is_null(json, "compressor")) {
      return fmt::format("is compressed with {}", codec_text(json.at("compressor")));
    }
    if (!is_null(json, "filters") && !json.at("filters").empty()) {
      std::vector<std::string> filters;
      for (const Json& filter : json.at("filters")) filters.push_back(codec_text(filter));
      return fmt::format("has filters ({})", fmt::join(filters, ", "));
    }
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
  if (std::filesystem::exists(folder / file_of_version_3)) {
    const std::string codecs = codecs_of_version_3(folder);
    throw UserError::of(
        "{} is a Zarr store of version 3, and only those of version 2 without compression are read{}; {}", store,
        codecs.empty() ? "" : fmt::format(" ({})", codecs), way_out);
  }
  if (!std::filesystem::exists(folder / ".zgroup")) {
    throw UserError::of("{} is a Zarr store without a group, and only groups of version 2 are read; {}", store,
                        way_out);
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

Json zarr_attribute(const std::filesystem::path& array, const std::string& attribute) {
  if (attribute == "_FillValue") {
    const Json described = object_of(array / array_file);
    if (const auto fill = described.find("fill_value"); fill != described.end() && !fill->is_null()) return *fill;
  }
  const Json attributes = object_of(array / attributes_file);
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? Json() : *found;
}

std::string unusual_attributes_of_zarr(const std::filesystem::path& folder) {
  std::vector<std::string> unusual;
  const auto look_at = [&](const std::filesystem::path& array, const std::string& name) {
    const Json attributes = object_of(array / attributes_file);
    for (const auto& [attribute, value] : attributes.items()) {
      if (attribute != "_ARRAY_DIMENSIONS" && is_unusual(value)) {
        unusual.push_back(fmt::format("{} {} = {}", name, attribute, value.dump()));
      }
    }
  };
  look_at(folder, "the store's");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) look_at(entry.path(), entry.path().filename().string());
  }
  std::ranges::sort(unusual);
  if (unusual.empty()) return "";
  return fmt::format(", perhaps for these attributes: {}", fmt::join(unusual, ", "));
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
