// Reads the description that has the statistics once more.
#include "terrace/data/fields/statistics/statistics_check.h"

#include <fmt/format.h>

#include <set>

#include "terrace/base/problem_list.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/fields/scanned_fields.h"
#include "terrace/data/kept_statistics.h"

namespace terrace::data {
namespace {

// A sentence where two units are known and different, else "".
std::string problem_with_units(const FieldOfDataset& own, const FieldOfDataset& trained, const std::string& prefix) {
  const auto units = canonical_units(own.units), wanted = canonical_units(trained.units);
  if (!units || !wanted || own.units.empty() || trained.units.empty() || are_same_units(own.units, trained.units))
    return "";
  return fmt::format("{} has {} in {}, and the model was trained with {}; convert it, and prepare the fields again",
                     prefix, own.name, own.units, trained.units);
}

}  // namespace

void check_against_statistics(const FieldsSource& source) {
  const FieldsConfig& config = source.config();
  if (!names_statistics_file(config.statistics)) return;
  const FieldsDescription& own = source.description();
  const FieldsDescription trained = read_fields_description(config.statistics);
  std::vector<std::string> problems;
  const FieldGrid grid{own.latitudes, own.longitudes}, trained_grid{trained.latitudes, trained.longitudes};
  const bool same_size =
      own.latitudes.size() == trained.latitudes.size() && own.longitudes.size() == trained.longitudes.size();
  if (same_size && !are_same_grid(grid, trained_grid)) {
    problems.push_back(fmt::format("{} has {}, and the model was trained with {}; interpolate the fields to that grid",
                                   config.fields, grid_text(grid), grid_text(trained_grid)));
  }
  std::set<std::string> names(source.request().inputs.begin(), source.request().inputs.end());
  names.insert(source.request().outputs.begin(), source.request().outputs.end());
  for (const std::string& name : names) {
    const int64_t here = FieldsDescription::find(own.variables, name);
    const int64_t there = FieldsDescription::find(trained.variables, name);
    if (here < 0 || there < 0) continue;
    std::string problem = problem_with_units(own.variables[static_cast<size_t>(here)],
                                             trained.variables[static_cast<size_t>(there)], config.fields);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  if (config.inputs > 1 && config.input_step == 0 && !(own.step == trained.step)) {
    problems.push_back(
        fmt::format("{} has a time every {}, and the {} inputs of the model lie {} apart; prepare the "
                    "fields with that step",
                    config.fields, own.step.text(), config.inputs, trained.step.text()));
  }
  throw_problems(problems, "differences from the data that the model was trained with");
}

}  // namespace terrace::data
