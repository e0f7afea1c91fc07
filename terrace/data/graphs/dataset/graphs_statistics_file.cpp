// Writes and reads statistics of graphs as JSON.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/data/graphs/dataset/graphs_statistics.h"
#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

constexpr const char* statistics_format = "terrace graph statistics";
constexpr int statistics_version = 1;
constexpr std::array<std::string_view, 3> offset_words = {"none", "mean", "elements"};

uint8_t element_of_symbol(const std::string& symbol) {
  if (symbol == element_symbol(0)) return 0;
  const std::optional<uint8_t> element = atomic_number(symbol);
  if (!element) throw UserError::of("names {}, which is no element", symbol);
  return *element;
}

Json json_of_offset(const std::optional<OffsetOfDataset>& offset) {
  if (!offset) return {};
  Json json = Json::object();
  if (!offset->mean.empty()) json["mean"] = offset->mean;
  for (const auto& [element, numbers] : offset->of_elements) {
    json["elements"][std::string(element_symbol(element))] = numbers;
  }
  return json;
}

std::optional<OffsetOfDataset> offset_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  OffsetOfDataset offset;
  if (json.contains("mean")) offset.mean = json.at("mean").get<std::vector<double>>();
  if (json.contains("elements")) {
    for (const auto& [symbol, numbers] : json.at("elements").items()) {
      offset.of_elements[element_of_symbol(symbol)] = numbers.get<std::vector<double>>();
    }
  }
  return offset;
}

LabelStatistics label_of(const Json& json, size_t datasets) {
  const auto word = std::ranges::find(offset_words, json.at("offset").get<std::string>());
  if (word == offset_words.end()) throw UserError::of("has an offset {}", json.at("offset").dump());
  LabelStatistics label{.property = json.at("property"),
                        .offset = static_cast<LabelOffset>(word - offset_words.begin()),
                        .per_atom = json.at("per_atom"),
                        .scaled_as = json.at("scaled_as"),
                        .scale = json.at("scale"),
                        .units = json.value("units", std::string())};
  for (const Json& offset : json.at("offsets")) label.offsets.push_back(offset_of(offset));
  if (label.offsets.size() != datasets || !(label.scale > 0) || !std::isfinite(label.scale)) {
    throw UserError::of("has {} offsets for {} datasets, or the scale {:g}", label.offsets.size(), datasets,
                        label.scale);
  }
  for (const auto& offset : label.offsets) {
    if (offset && label.offset == LabelOffset::mean && offset->mean.empty()) throw UserError("has no mean of a label");
  }
  return label;
}

GraphsStatistics graphs_statistics_of(const Json& json) {
  GraphsStatistics statistics{.datasets = json.at("datasets").get<std::vector<std::string>>(),
                              .degree_means = json.at("degree_means").get<std::array<double, 2>>()};
  for (const Json& symbol : json.at("elements"))
    statistics.elements.push_back(element_of_symbol(symbol.get<std::string>()));
  std::ranges::sort(statistics.elements);
  for (const auto& [name, label] : json.at("labels").items()) {
    statistics.labels[name] = label_of(label, statistics.datasets.size());
  }
  return statistics;
}

}  // namespace

std::string GraphsStatistics::text() const {
  Json symbols = Json::array(), of_labels = Json::object();
  for (const uint8_t element : elements) symbols.push_back(element_symbol(element));
  for (const auto& [name, label] : labels) {
    Json offsets = Json::array();
    for (const auto& offset : label.offsets) offsets.push_back(json_of_offset(offset));
    of_labels[name] = {{"property", label.property}, {"offset", offset_words[static_cast<size_t>(label.offset)]},
                       {"per_atom", label.per_atom}, {"scaled_as", label.scaled_as},
                       {"scale", label.scale},       {"offsets", offsets}};
    if (!label.units.empty()) of_labels[name]["units"] = label.units;
  }
  const Json json = {{"format", statistics_format},  {"version", statistics_version}, {"datasets", datasets},
                     {"degree_means", degree_means}, {"elements", symbols},           {"labels", of_labels}};
  return json.dump(1) + "\n";
}

GraphsStatistics parse_graphs_statistics(std::string_view text) { return graphs_statistics_of(parse_json(text)); }

std::string exact_text(const GraphsStatistics& statistics) {
  std::string text = statistics.text();
  try {
    if (parse_graphs_statistics(text) == statistics) return text;
  } catch (const Json::exception&) {  // null for a number
  } catch (const UserError&) {
  }
  return "";
}

Json json_of_request(const GraphsRequest& request) {
  Json labels = Json::array();
  for (const GraphLabel& label : request.labels) {
    labels.push_back({{"name", label.name},
                      {"property", label.property},
                      {"level", word_of(label.level)},
                      {"width", label.width},
                      {"offset", offset_words[static_cast<size_t>(label.offset)]},
                      {"scaled_as", label.scaled_as},
                      {"per_atom", label.per_atom}});
    if (label.is_stress) labels.back()["is_stress"] = true;
  }
  return {{"labels", labels},
          {"given_edges", request.given_edges},
          {"radius", request.radius},
          {"max_neighbours", request.max_neighbours}};
}

GraphsStatistics read_graphs_statistics(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw UserError::of("data.statistics: {} does not exist; leave the key out to use the statistics of data.train",
                        path.string());
  }
  const Json json = parse_json_or_discard(read_text(path));
  if (!json.is_object() || !json.contains("format") || json.at("format") != statistics_format ||
      !json.contains("version") || json.at("version") != statistics_version) {
    throw UserError::of(
        "data.statistics: {} has no statistics of graphs, version {}, as a checkpoint keeps them; leave the key out to "
        "use those of data.train",
        path.string(), statistics_version);
  }
  try {
    return graphs_statistics_of(json);
  } catch (const Json::exception& error) {
    throw UserError::of("data.statistics: {} is incomplete: {}", path.string(), error.what());
  } catch (const UserError& error) {
    throw UserError::of("data.statistics: {} {}", path.string(), error.what());
  }
}

}  // namespace terrace::data
