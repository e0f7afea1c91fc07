// Writes and reads statistics of graphs as JSON.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"
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

Json json_of_numbers(const ElementNumbers& numbers) {
  Json json = Json::object();
  for (const auto& [element, of_element] : numbers) json[std::string(element_symbol(element))] = of_element;
  return json;
}

ElementNumbers numbers_in(const Json& json) {
  ElementNumbers numbers;
  for (const auto& [symbol, of_element] : json.items()) {
    numbers[element_of_symbol(symbol)] = of_element.get<std::vector<double>>();
  }
  return numbers;
}

Json json_of_elements(const std::vector<uint8_t>& elements) {
  Json symbols = Json::array();
  for (const uint8_t element : elements) symbols.push_back(element_symbol(element));
  return symbols;
}

std::vector<uint8_t> elements_of(const Json& json) {
  std::vector<uint8_t> elements;
  for (const Json& symbol : json) elements.push_back(element_of_symbol(symbol.get<std::string>()));
  std::ranges::sort(elements);
  return elements;
}

void check_label(const LabelStatistics& label, size_t datasets) {
  if (label.offsets.size() != datasets || !(label.scale > 0) || !std::isfinite(label.scale)) {
    throw UserError::of("has {} offsets for {} datasets, or the scale {:g}", label.offsets.size(), datasets,
                        label.scale);
  }
  for (const auto& offset : label.offsets) {
    if (offset && label.offset == LabelOffset::mean && offset->mean.empty()) throw UserError("has no mean of a label");
  }
}

}  // namespace

void members_of(auto& json, MaybeConst<OffsetOfDataset> auto& one) {
  json.optional("mean", one.mean);
  if (json.has("elements", !one.of_elements.empty())) json.as("elements", one.of_elements, json_of_numbers, numbers_in);
}

void members_of(auto& json, MaybeConst<LabelStatistics> auto& one) {
  json("property", one.property).word("offset", one.offset, offset_words, "has an offset");
  json("per_atom", one.per_atom)("scaled_as", one.scaled_as)("scale", one.scale);
  json("offsets", one.offsets).optional("units", one.units);
}

void members_of(auto& json, MaybeConst<GraphsStatistics> auto& one) {
  json("datasets", one.datasets)("degree_means", one.degree_means);
  json.as("elements", one.elements, json_of_elements, elements_of)("labels", one.labels);
}

namespace {

GraphsStatistics graphs_statistics_of(const Json& json) {
  auto statistics = record_of<GraphsStatistics>(json);
  for (const auto& [name, label] : statistics.labels) check_label(label, statistics.datasets.size());
  return statistics;
}

}  // namespace

std::string GraphsStatistics::text() const {
  Json json = {{"format", statistics_format}, {"version", statistics_version}};
  json.update(json_of_record(*this));
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
