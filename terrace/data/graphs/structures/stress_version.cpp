// Looks for structures whose stress the first version took for another.
#include "terrace/data/graphs/structures/stress_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/dataset/graph_files.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::data {
namespace {

constexpr const char* stress_entry = "stress";
constexpr int first_version = 1, latest_version = 2;

Json places_of_redefined(const GraphsDataset& dataset, int64_t property, bool is_virial) {
  int64_t structures = 0, first = -1;
  for (int64_t structure = 0; structure < dataset.structures(); ++structure) {
    const auto& periodic = dataset.structure(structure).cell.periodic;
    if (!is_virial && periodic[0] && periodic[1] && periodic[2]) continue;
    const std::span<const double> values = dataset.values(property, structure);
    if (std::ranges::all_of(values, [](double value) { return std::isnan(value); })) continue;
    if (structures++ == 0) first = structure;
  }
  return {structures, first};
}

}  // namespace

RedefinedStress redefined_stress(const GraphsDataset& dataset, int64_t property, const GraphLabel& label) {
  RedefinedStress found{.dataset = dataset.prefix(), .property = label.property};
  if (!label.is_stress || property < 0) return found;
  const bool is_virial = quantity_of(label.property) == PhysicalQuantity::virial;
  const std::string question = fmt::format("structures of which {} was another stress", label.property);
  const Json places = parse_json(
      found_in(dataset.files(), question, [&] { return places_of_redefined(dataset, property, is_virial).dump(); }));
  found.structures = places.at(0).get<int64_t>();
  if (found.structures == 0) return found;
  const GraphView view = dataset.structure(places.at(1).get<int64_t>());
  found.first = structure_name(dataset.description().sources.at(static_cast<size_t>(view.source)), view.number);
  return found;
}

void record_stress(Json& identity) { identity[stress_entry] = latest_version; }

void check_recorded_stress(const Json& older, const Json& own,
                           const std::function<std::vector<RedefinedStress>()>& redefined) {
  const int version = older.value(stress_entry, first_version);
  if (version > latest_version) {
    throw UserError::of(
        "the run defines stress by version {}, and this terrace knows versions 1 to {}; continue it with the terrace "
        "that wrote its checkpoints, or a later one",
        version, latest_version);
  }
  if (!own.contains(stress_entry) || version == latest_version) return;
  for (const RedefinedStress& one : redefined()) {
    throw UserError::of(
        "the run was begun by an older terrace, which took the label {} of {} of {} ({} and others like it) for "
        "another stress: {}. Continue it with the terrace that wrote its checkpoints, or start a new run in another "
        "checkpoint.folder, with train.initial_weights to begin with what was learned",
        one.property, counted(static_cast<uint64_t>(one.structures), "structure"), one.dataset, one.first,
        quantity_of(one.property) == PhysicalQuantity::virial
            ? "it trained on the virial itself, and this terrace trains on -virial / volume"
            : "it divided by no volume where a structure is not periodic in three directions, and this terrace divides "
              "by that of the cell as it is given");
  }
}

}  // namespace terrace::data
