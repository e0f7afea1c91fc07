// Writes the summary of a dataset of fields, and computes the checksums of its arrays.
#include "terrace/data/fields/preparation/fields_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/scanned_fields.h"

namespace terrace::data {
namespace {

std::string field_line(const FieldOfDataset& field) {
  std::string line = "  " + field.name;
  if (!field.units.empty()) line += fmt::format(" [{}]", field.units);
  if (!field.long_name.empty()) line += fmt::format(", {}", field.long_name);
  if (field.moments)
    line += fmt::format(": mean {:.6g}, deviation {:.4g}", field.moments->mean, field.moments->deviation);
  return line + "\n";
}

Json json_of_field(const FieldOfDataset& field) {
  Json json = {{"name", field.name}, {"units", field.units}};
  if (field.level) json.update({{"level", *field.level}, {"level_units", field.level_units}});
  if (field.moments) json.update({{"mean", field.moments->mean}, {"deviation", field.moments->deviation}});
  return json;
}

}  // namespace

PrepareResult summary_of_fields(const FieldsDescription& description, const std::string& prefix) {
  const FieldsDescription& all = description;
  const std::string first = text_of(all.calendar, all.times.front()), last = text_of(all.calendar, all.times.back());
  const FieldGrid grid{all.latitudes, all.longitudes};
  PrepareResult result;
  result.text = fmt::format("{} from {} to {}, every {} (calendar {})\non {}\n", counted(all.times.size(), "time"),
                            first, last, all.step.text(), name_of(all.calendar), grid_text(grid));
  Json splits = Json::object(), variables = Json::array(), constants = Json::array();
  for (const auto& [name, split] : all.splits) {
    result.text += fmt::format("  {} {} to {}: {}\n", name, split.from, split.to,
                               counted(static_cast<uint64_t>(split.count()), "time"));
    splits[name] = {{"from", split.from}, {"to", split.to}, {"times", split.count()}};
  }
  const std::string_view climatology = climatology_word(all.climatology);
  result.text += fmt::format("climatology: {}; values are missing: {}\n{}:\n", climatology,
                             all.has_missing ? "some" : "none", counted(all.variables.size(), "variable"));
  for (const FieldOfDataset& field : all.variables) {
    result.text += field_line(field);
    variables.push_back(json_of_field(field));
  }
  if (!all.constants.empty()) result.text += counted(all.constants.size(), "constant") + ":\n";
  for (const FieldOfDataset& field : all.constants) {
    result.text += field_line(field);
    constants.push_back(json_of_field(field));
  }
  result.text.pop_back();  // the end of the last line
  result.json = {{"times", all.times.size()},
                 {"from", first},
                 {"to", last},
                 {"step", all.step.text()},
                 {"calendar", name_of(all.calendar)},
                 {"latitudes", all.latitudes},
                 {"longitudes", all.longitudes},
                 {"splits", splits},
                 {"climatology", climatology},
                 {"has_missing", all.has_missing},
                 {"variables", variables},
                 {"constants", constants},
                 {"output", prefix}};
  return result;
}

void check_checksums(const FieldsDataset& dataset) {
  const FieldsDescription& all = dataset.description();
  const std::array<std::pair<const char*, const StoredArray*>, 3> arrays = {
      {{"fields", &all.fields}, {"constants", &all.constant_fields}, {"climatology", &all.climatology_fields}}};
  uint64_t bytes = 0, done = 0;
  for (const auto& [name, array] : arrays) bytes += array->sizes.empty() ? 0 : array->numbers() * sizeof(float);
  Progress progress("computing checksums", bytes);
  const StoreFile store(fields_path(dataset.prefix()), StoreFile::Access::read);
  for (const auto& [name, array] : arrays) {
    // Named again for the lambda: Clang before 16 lets none capture a structured binding.
    const std::string found = store.checksum_of(
        *array, [&progress, done, shown = name](uint64_t of_array) { progress.update(done + of_array, shown); });
    if (found != array->checksum) {
      throw UserError::of("{}: the array {} has another checksum than {} says; it is damaged, so copy it again",
                          fields_path(dataset.prefix()).string(), name, description_path(dataset.prefix()).string());
    }
    done += array->sizes.empty() ? 0 : array->numbers() * sizeof(float);
  }
}

}  // namespace terrace::data
