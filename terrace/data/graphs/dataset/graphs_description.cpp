// Writes and reads the description of a dataset of graphs as JSON.
#include "terrace/data/graphs/dataset/graphs_description.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"

namespace terrace::data {
namespace {

constexpr const char* graphs_format = "terrace graphs";
// Version 2 has properties that not all structures have, which older programs would take for numbers.
constexpr int graphs_version = 1, newest_graphs_version = 2;

constexpr std::array<std::string_view, 4> type_words = {"|u1", "<i4", "<i8", "<f8"};
constexpr std::array<uint64_t, 4> type_bytes = {1, 4, 8, 8};
constexpr std::array<std::string_view, 3> level_words = {"structure", "atom", "edge"};

}  // namespace

void members_of(auto& json, MaybeConst<GraphArray> auto& one) {
  json.word("type", one.type, type_words, "has an array of the type");
  json("offset", one.offset)("sizes", one.sizes)("checksum", one.checksum);
}

void members_of(auto& json, MaybeConst<GraphProperty> auto& one) {
  json("name", one.name).word("level", one.level, level_words, "has a property of the level");
  json("width", one.width)("units", one.units)("array", one.array);
  if (json.optional("mean", one.means)) json("deviation", one.deviations);
  if (json.has("structures_without", !one.is_complete())) json("structures_without", one.structures_without);
  if (json.has("missing_values", !one.is_complete())) json("missing_values", one.missing_values);
}

void members_of(auto& json, MaybeConst<GraphStatistics> auto& one) {
  json("structures", one.structures)("mean_atoms", one.mean_atoms)("most_atoms", one.most_atoms);
  json("atoms_of_element", one.atoms_of_element);
}

void members_of(auto& json, MaybeConst<GraphsDescription> auto& one) {
  json("structures", one.structures)("atoms", one.atoms)("edges", one.edges)("has_edges", one.has_edges);
  json.object("split", [&](auto& split) { split("by", one.split_by)("shares", one.shares)("seed", one.seed); });
  json("statistics", one.statistics)("properties", one.properties)("arrays", one.arrays)("sources", one.sources);
}

uint64_t bytes_of(NumberType type) { return type_bytes[static_cast<size_t>(type)]; }

std::string_view numpy_name(NumberType type) { return type_words[static_cast<size_t>(type)]; }

std::string_view word_of(GraphLevel level) { return level_words[static_cast<size_t>(level)]; }

uint64_t GraphArray::numbers() const {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
}

int64_t GraphsDescription::find(std::string_view name, GraphLevel level) const {
  for (size_t i = 0; i < properties.size(); ++i) {
    if (properties[i].name == name && properties[i].level == level) return static_cast<int64_t>(i);
  }
  return -1;
}

std::string GraphsDescription::text() const {
  Json json = {{"format", graphs_format},
               {"version",
                std::ranges::all_of(properties, &GraphProperty::is_complete) ? graphs_version : newest_graphs_version}};
  json.update(json_of_record(*this));
  return json.dump(1) + "\n";
}

std::filesystem::path graphs_path(const std::string& prefix) { return prefix + ".bin"; }
std::filesystem::path graphs_description_path(const std::string& prefix) { return prefix + ".json"; }

bool describes_graphs(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const Json json = parse_json_or_discard(read_text(path));
  return json.is_object() && json.contains("format") && json.at("format") == graphs_format;
}

GraphsDescription read_graphs_description(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError::of(
        "{} does not exist; make the dataset with terrace data prepare --kind graphs INPUTS --output {}", path.string(),
        std::filesystem::path(path).replace_extension().string());
  }
  if (!describes_graphs(path)) {
    throw UserError::of(
        "{} does not describe prepared graphs; make the dataset with terrace data prepare --kind graphs",
        path.string());
  }
  const Json json = parse_json_or_discard(read_text(path));
  const bool is_known =
      json.contains("version") && (json.at("version") == graphs_version || json.at("version") == newest_graphs_version);
  if (!is_known) {
    throw UserError::of(
        "{} is not of version {} or {} of its format, which this program reads; prepare the dataset again",
        path.string(), graphs_version, newest_graphs_version);
  }
  try {
    return record_of<GraphsDescription>(json);
  } catch (const Json::exception& error) {
    throw UserError::of("{} is incomplete: {}; prepare the dataset again", path.string(), error.what());
  } catch (const UserError& error) {
    throw UserError::of("{} {}; prepare the dataset again", path.string(), error.what());
  }
}

}  // namespace terrace::data
