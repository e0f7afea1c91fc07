// Writes the summary of a dataset of graphs.
#include "terrace/data/graphs/dataset/graphs_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

uint64_t in_part(const GraphsDescription& all, const char* name) {
  const auto found = all.arrays.find(name);
  return found == all.arrays.end() ? 0 : found->second.numbers();
}

std::string property_line(const GraphProperty& property) {
  std::string line = fmt::format("  {} of {}s, {}", property.name, word_of(property.level),
                                 counted(static_cast<uint64_t>(property.width), "column"));
  if (!property.units.empty()) line += fmt::format(", {}", property.units);
  if (!property.means.empty() && property.width <= 9) {
    line += fmt::format(": mean {:.4g}, deviation {:.4g}", fmt::join(property.means, " "),
                        fmt::join(property.deviations, " "));
  }
  if (property.structures_without > 0) {
    line += fmt::format("; {} without it", counted(static_cast<uint64_t>(property.structures_without), "structure"));
  }
  if (property.missing_values > 0) {
    line += fmt::format("; {} missing (NaN)", counted(static_cast<uint64_t>(property.missing_values), "value"));
  }
  return line + "\n";
}

}  // namespace

PrepareResult summary_of_graphs(const GraphsDescription& description, const std::string& prefix) {
  const GraphsDescription& all = description;
  std::vector<std::string> parts, elements;
  Json splits = Json::object();
  for (const char* name : graph_splits) {
    splits[name] = in_part(all, name);
    if (in_part(all, name) > 0) parts.push_back(fmt::format("{}: {}", name, counted(in_part(all, name), "structure")));
  }
  for (const auto& [symbol, count] : all.statistics.atoms_of_element) {
    elements.push_back(fmt::format("{} {}", symbol, count));
  }
  PrepareResult result;
  result.text = fmt::format("{} of {} with {}", counted(static_cast<uint64_t>(all.structures), "structure"),
                            counted(all.sources.size(), "file"), counted(static_cast<uint64_t>(all.atoms), "atom"));
  if (all.has_edges) result.text += fmt::format(" and {}", counted(static_cast<uint64_t>(all.edges), "edge"));
  result.text += fmt::format("; {}\n", fmt::join(parts, ", "));
  result.text += fmt::format("training part: {:.1f} atoms a structure, {} in the largest", all.statistics.mean_atoms,
                             all.statistics.most_atoms);
  if (!elements.empty()) result.text += fmt::format("; atoms by element: {}", fmt::join(elements, ", "));
  result.text += "\n";
  Json properties = Json::array();
  for (const GraphProperty& property : all.properties) {
    result.text += property_line(property);
    Json json = {{"name", property.name},
                 {"level", word_of(property.level)},
                 {"width", property.width},
                 {"units", property.units},
                 {"structures_without", property.structures_without},
                 {"missing_values", property.missing_values}};
    if (!property.means.empty()) json.update({{"mean", property.means}, {"deviation", property.deviations}});
    properties.push_back(std::move(json));
  }
  result.json = {{"structures", all.structures},
                 {"atoms", all.atoms},
                 {"edges", all.has_edges ? Json(all.edges) : Json()},
                 {"files", all.sources.size()},
                 {"splits", splits},
                 {"split_by", all.split_by},
                 {"seed", all.seed},
                 {"mean_atoms", all.statistics.mean_atoms},
                 {"most_atoms", all.statistics.most_atoms},
                 {"atoms_of_element", all.statistics.atoms_of_element},
                 {"properties", properties},
                 {"output", prefix}};
  return result;
}

}  // namespace terrace::data
