// Joins the statistics of a dataset and of a checkpoint.
#include "terrace/data/fields/statistics/kept_moments.h"

#include <optional>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/kept_statistics.h"

namespace terrace::data {
namespace {

// Puts the means and deviations of `kept` in the place of those of variables, or constants, of the same name in `own`.
void keep_moments(const std::vector<FieldOfDataset>& kept, const FieldsConfig& config,
                  std::vector<FieldOfDataset>& own) {
  for (FieldOfDataset& field : own) {
    const int64_t number = FieldsDescription::find(kept, field.name);
    if (number < 0 || !kept[static_cast<size_t>(number)].moments) continue;
    const FieldOfDataset& before = kept[static_cast<size_t>(number)];
    const bool are_known = canonical_units(field.units) && canonical_units(before.units);
    if (are_known && !field.units.empty() && !before.units.empty() && !are_same_units(field.units, before.units)) {
      throw UserError::of(
          "{} has {} in {}, and the weights of train.initial_weights were trained with {}; convert it, and prepare the "
          "fields again, or set data.statistics = \"{}\"",
          config.fields, field.name, field.units, before.units, statistics_of_data);
    }
    field.moments = before.moments;
  }
}

}  // namespace

std::string statistics_path(const FieldsConfig& config) {
  return names_statistics_file(config.statistics) ? config.statistics : description_path(config.fields).string();
}

FieldsDescription statistics_of(const FieldsConfig& config) {
  FieldsDescription statistics = read_fields_description(statistics_path(config));
  if (config.kept_statistics.empty()) return statistics;
  const FieldsDescription kept = read_fields_description(config.kept_statistics);
  keep_moments(kept.variables, config, statistics.variables);
  keep_moments(kept.constants, config, statistics.constants);
  return statistics;
}

}  // namespace terrace::data
