// Writes and reads the description of a dataset of graphs as JSON.
#include "terrace/data/graphs/dataset/graphs_description.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

constexpr const char* graphs_format = "terrace graphs";
// Version 2 has properties that not all structures have, which older programs would take for numbers.
constexpr int graphs_version = 1, newest_graphs_version = 2;

struct NumberTypeFacts {
  NumberType type;
  const char* name;
  uint64_t bytes;
};
constexpr std::array<NumberTypeFacts, 4> number_types = {{{NumberType::uint8, "|u1", 1},
                                                          {NumberType::int32, "<i4", 4},
                                                          {NumberType::int64, "<i8", 8},
                                                          {NumberType::float64, "<f8", 8}}};
constexpr std::array<std::string_view, 3> level_words = {"structure", "atom", "edge"};

const NumberTypeFacts& facts_of(NumberType type) {
  return *std::ranges::find(number_types, type, &NumberTypeFacts::type);
}

Json json_of_array(const GraphArray& array) {
  return {
      {"type", numpy_name(array.type)}, {"offset", array.offset}, {"sizes", array.sizes}, {"checksum", array.checksum}};
}

GraphArray graph_array_of(const Json& json) {
  const auto type = std::ranges::find(number_types, json.at("type").get<std::string>(), &NumberTypeFacts::name);
  if (type == number_types.end()) throw UserError::of("has an array of the type {}", json.at("type").dump());
  return {.type = type->type,
          .offset = json.at("offset"),
          .sizes = json.at("sizes").get<std::vector<uint64_t>>(),
          .checksum = json.at("checksum")};
}

Json json_of_property(const GraphProperty& property) {
  Json json = {{"name", property.name},
               {"level", word_of(property.level)},
               {"width", property.width},
               {"units", property.units},
               {"array", json_of_array(property.array)}};
  if (!property.means.empty()) json.update({{"mean", property.means}, {"deviation", property.deviations}});
  if (!property.is_complete()) {
    json.update({{"structures_without", property.structures_without}, {"missing_values", property.missing_values}});
  }
  return json;
}

GraphProperty property_of(const Json& json) {
  const auto level = std::ranges::find(level_words, json.at("level").get<std::string>());
  if (level == level_words.end()) throw UserError::of("has a property of the level {}", json.at("level").dump());
  GraphProperty property{.name = json.at("name"),
                         .level = static_cast<GraphLevel>(level - level_words.begin()),
                         .width = json.at("width"),
                         .units = json.at("units"),
                         .array = graph_array_of(json.at("array"))};
  property.structures_without = json.value("structures_without", int64_t{0});
  property.missing_values = json.value("missing_values", int64_t{0});
  if (json.contains("mean")) {
    property.means = json.at("mean").get<std::vector<double>>();
    property.deviations = json.at("deviation").get<std::vector<double>>();
  }
  return property;
}

GraphsDescription graphs_description_of(const Json& json) {
  GraphsDescription description{.structures = json.at("structures"),
                                .atoms = json.at("atoms"),
                                .edges = json.at("edges"),
                                .has_edges = json.at("has_edges"),
                                .sources = json.at("sources").get<std::vector<std::string>>(),
                                .split_by = json.at("split").at("by"),
                                .shares = json.at("split").at("shares").get<std::vector<double>>(),
                                .seed = json.at("split").at("seed")};
  const Json& statistics = json.at("statistics");
  description.statistics = {.atoms_of_element = statistics.at("atoms_of_element").get<std::map<std::string, int64_t>>(),
                            .structures = statistics.at("structures"),
                            .mean_atoms = statistics.at("mean_atoms"),
                            .most_atoms = statistics.at("most_atoms")};
  for (const Json& property : json.at("properties")) description.properties.push_back(property_of(property));
  for (const auto& [name, array] : json.at("arrays").items()) description.arrays[name] = graph_array_of(array);
  return description;
}

}  // namespace

uint64_t bytes_of(NumberType type) { return facts_of(type).bytes; }

std::string_view numpy_name(NumberType type) { return facts_of(type).name; }

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
  Json of_properties = Json::array(), of_arrays = Json::object();
  for (const GraphProperty& property : properties) of_properties.push_back(json_of_property(property));
  for (const auto& [name, array] : arrays) of_arrays[name] = json_of_array(array);
  const Json json = {{"format", graphs_format},
                     {"version", std::ranges::all_of(properties, &GraphProperty::is_complete) ? graphs_version
                                                                                              : newest_graphs_version},
                     {"structures", structures},
                     {"atoms", atoms},
                     {"edges", edges},
                     {"has_edges", has_edges},
                     {"split", {{"by", split_by}, {"shares", shares}, {"seed", seed}}},
                     {"statistics",
                      {{"structures", statistics.structures},
                       {"mean_atoms", statistics.mean_atoms},
                       {"most_atoms", statistics.most_atoms},
                       {"atoms_of_element", statistics.atoms_of_element}}},
                     {"properties", of_properties},
                     {"arrays", of_arrays},
                     {"sources", sources}};
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
    return graphs_description_of(json);
  } catch (const Json::exception& error) {
    throw UserError::of("{} is incomplete: {}; prepare the dataset again", path.string(), error.what());
  } catch (const UserError& error) {
    throw UserError::of("{} {}; prepare the dataset again", path.string(), error.what());
  }
}

}  // namespace terrace::data
