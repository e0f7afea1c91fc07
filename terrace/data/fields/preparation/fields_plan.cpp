// Chooses variables, checks their units, and finds the place of every time.
#include "terrace/data/fields/preparation/fields_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/spelling.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/fields/preparation/fields_times.h"
#include "terrace/data/fields/scanned_fields.h"
#include "terrace/data/fields/unit_definitions.h"

namespace terrace::data {
namespace {

FieldOfDataset field_at(const FileVariable& variable, std::optional<double> level) {
  return {.name = level ? name_at_level(variable.name, *level) : variable.name,
          .variable = variable.name,
          .level = level,
          .level_units = level ? variable.level_units : "",
          .units = variable.units,
          .standard_name = variable.standard_name,
          .long_name = variable.long_name,
          .entries = variable.entries};
}

// Returns all fields of a variable: at each level that is wanted, and without a level.
std::vector<FieldOfDataset> fields_at_levels(const KnownVariable& known, const std::vector<double>& wanted) {
  std::vector<FieldOfDataset> fields;
  if (known.without_levels) fields.push_back(field_at(known.first, std::nullopt));
  for (const double level : known.levels) {
    const bool is_wanted = wanted.empty() || std::ranges::any_of(wanted, [&](double one) {
                             return std::abs(one - level) <= 1e-6 * std::abs(level);
                           });
    if (is_wanted) fields.push_back(field_at(known.first, level));
  }
  return fields;
}

class FieldChoice {
 public:
  FieldChoice(const ScannedFields& scanned, const FieldsSelection& selection)
      : known_(variables_of(scanned)), selection_(selection) {
    for (const ScannedFile& file : scanned.files) {
      for (const LeftOutVariable& one : file.left_out) add_left_out(one);
    }
    check_levels();
    for (const std::string& name : selection.constants) add(name, true);
    for (const std::string& name : selection.variables) add(name, false);
    for (const KnownVariable& known : known_) {
      if (selection.constants.empty() && !known.first.has_times) add(known.first.name, true);
    }
    for (const KnownVariable& known : known_) {
      if (selection.variables.empty() && known.first.has_times && !is_constant(known)) add(known.first.name, false);
    }
    check_taken_everywhere();
    if (variables.empty() && problems_.empty()) {
      problems_.emplace_back("the files have no variable that changes with time; name some with --variables");
      for (const LeftOutVariable& one : left_out) problems_.push_back(one.why);
    }
    throw_problems(problems_, "variables that cannot be taken");
  }

  std::vector<FieldOfDataset> variables, constants;
  std::vector<LeftOutVariable> left_out;  // by name

 private:
  void add_left_out(const LeftOutVariable& one) {
    if (std::ranges::find(left_out, one.name, &LeftOutVariable::name) == left_out.end()) left_out.push_back(one);
  }

  void check_levels() {
    for (const double level : selection_.levels) {
      const bool is_known = std::ranges::any_of(known_, [&](const KnownVariable& known) {
        return std::ranges::any_of(known.levels,
                                   [&](double one) { return std::abs(one - level) <= 1e-6 * std::abs(one); });
      });
      if (!is_known) problems_.push_back(fmt::format("no variable of the files has the level {:g}", level));
    }
  }

  bool is_constant(const KnownVariable& known) const {
    return std::ranges::any_of(constants, [&](const FieldOfDataset& one) { return one.variable == known.first.name; });
  }

  void add(const std::string& name, bool as_constant) {
    std::vector<std::string> names;
    for (const KnownVariable& known : known_) {
      const std::vector<FieldOfDataset> all = fields_at_levels(known, {});
      const bool is_whole = known.first.name == name;
      for (const FieldOfDataset& field : is_whole ? fields_at_levels(known, selection_.levels) : all) {
        names.push_back(field.name);
        if (!is_whole && field.name != name) continue;
        take(field, known, as_constant);
        if (!is_whole) return;
      }
      if (is_whole) return;
      names.push_back(known.first.name);
    }
    if (add_why_left_out(name)) return;
    const std::string nearest = nearest_word(name, names);
    problems_.push_back(fmt::format("no file has a variable {}{}; the files have {}", name,
                                    nearest.empty() ? "" : fmt::format(" (like {}?)", nearest), listed_names()));
  }

  bool add_why_left_out(const std::string& name) {
    const auto found = std::ranges::find_if(left_out, [&](const LeftOutVariable& one) {
      return name == one.name || name.starts_with(one.name + "_");  // or one of its levels
    });
    if (found == left_out.end()) return false;
    problems_.push_back(found->why);
    return true;
  }

  // One file may have a variable with a dimension more than others have.
  void check_taken_everywhere() {
    for (const LeftOutVariable& one : left_out) {
      const auto is_it = [&](const FieldOfDataset& field) { return field.variable == one.name; };
      if (std::ranges::any_of(variables, is_it) || std::ranges::any_of(constants, is_it)) problems_.push_back(one.why);
    }
  }

  void take(const FieldOfDataset& field, const KnownVariable& known, bool as_constant) {
    if (!as_constant && !known.first.has_times) {
      problems_.push_back(fmt::format("{} does not change with time; name it with --constants", field.name));
      return;
    }
    std::vector<FieldOfDataset>& list = as_constant ? constants : variables;
    if (FieldsDescription::find(list, field.name) < 0) list.push_back(field);
  }

  std::string listed_names() const {
    std::vector<std::string> names;
    for (const KnownVariable& known : known_) {
      names.push_back(known.levels.empty() ? known.first.name
                                           : fmt::format("{} at {} levels", known.first.name, known.levels.size()));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  std::vector<KnownVariable> known_;
  const FieldsSelection& selection_;
  std::vector<std::string> problems_;
};

// Returns the part of a file's variable that the list has; no outputs where the list has none.
FieldPiece piece_of(size_t file, size_t variable, const FileVariable& described,
                    const std::vector<FieldOfDataset>& list) {
  FieldPiece piece{.file = file, .variable = variable};
  for (const std::string& name : field_names(described)) piece.outputs.push_back(FieldsDescription::find(list, name));
  const auto is_wanted = [](int64_t output) { return output >= 0; };
  const auto begin = std::ranges::find_if(piece.outputs, is_wanted);
  piece.first_level = static_cast<size_t>(begin - piece.outputs.begin());
  piece.outputs.erase(piece.outputs.begin(), begin);
  while (!piece.outputs.empty() && !is_wanted(piece.outputs.back())) piece.outputs.pop_back();
  return piece;
}

// Fields of one variable have the same units in all files.
class UnitsCheck {
 public:
  explicit UnitsCheck(const FieldsSelection& selection) : selection_(selection) {}

  void look_at(const ScannedFile& file, const FileVariable& variable) {
    const auto given = selection_.units.find(variable.name);
    if (given != selection_.units.end()) return;
    const auto [known, is_first] = units_.emplace(variable.name, std::pair{variable.units, file.path});
    if (!canonical_units(variable.units) && is_first) {
      problems.push_back(
          fmt::format("{}: {} has the units \"{}\", which are not known{}; give the right ones with --units "
                      "{}=UNITS",
                      file.path.string(), variable.name, variable.units,
                      unit_definition("m") ? "" : " (udunits2, which knows more, is not built in or lacks its tables)",
                      variable.name));
    } else if (variable.units != known->second.first && !are_same_units(variable.units, known->second.first)) {
      problems.push_back(fmt::format("{}: {} has the units \"{}\", and in {} it has \"{}\"; convert one of them",
                                     file.path.string(), variable.name, variable.units, known->second.second.string(),
                                     known->second.first));
    }
  }

  std::vector<std::string> problems;

 private:
  const FieldsSelection& selection_;
  std::map<std::string, std::pair<std::string, std::filesystem::path>> units_;
};

void set_units(std::vector<FieldOfDataset>& fields, const FieldsSelection& selection) {
  for (FieldOfDataset& field : fields) {
    const auto given = selection.units.find(field.variable);
    if (given != selection.units.end()) field.units = given->second;
  }
}

// Records at which entries of other dimensions a file has a variable; the coordinates must be those of the other files.
void note_entries(const ScannedFile& file, const FileVariable& described, FieldChoice& choice,
                  std::vector<std::string>& problems) {
  for (auto* list : {&choice.variables, &choice.constants}) {
    for (FieldOfDataset& field : *list) {
      if (field.variable != described.name) continue;
      for (const auto& [dimension, entry] : described.entries) {
        const DimensionEntry& known = field.entries.emplace(dimension, entry).first->second;
        if (known.label == entry.label) continue;
        problems.push_back(fmt::format(
            "{}: --select {} takes {} at {} = {}, and at {} in an earlier file; choose by "
            "--select {}=value:{}",
            file.path.string(), dimension, field.name, dimension, entry.label, known.label, dimension, known.label));
      }
    }
  }
}

void check_given_units(const FieldsSelection& selection, const FieldChoice& choice) {
  for (const auto& [name, units] : selection.units) {
    const auto has = [&name = name](const FieldOfDataset& field) { return field.variable == name; };
    if (std::ranges::any_of(choice.variables, has) || std::ranges::any_of(choice.constants, has)) continue;
    throw UserError::of("--units names {}, and no variable that is taken has that name", name);
  }
}

}  // namespace

FieldsPlan plan_fields(const std::vector<std::filesystem::path>& files, const FieldsSelection& selection,
                       const std::function<void(size_t)>& look) {
  ScannedFields scanned = scan_fields(files, selection.dimensions, look);
  FieldChoice choice(scanned, selection);
  check_given_units(selection, choice);
  FieldsPlan plan;
  UnitsCheck units(selection);
  std::set<int64_t> constants_found;
  std::vector<std::string> entry_problems;
  for (size_t file = 0; file < scanned.files.size(); ++file) {
    const ScannedFile& one = scanned.files[file];
    plan.files.push_back(one.path);
    plan.axis_of_file.push_back(one.axis);
    for (size_t variable = 0; variable < one.variables.size(); ++variable) {
      const FileVariable& described = one.variables[variable];
      FieldPiece constant = piece_of(file, variable, described, choice.constants);
      FieldPiece piece = piece_of(file, variable, described, choice.variables);
      if (constant.outputs.empty() && piece.outputs.empty()) continue;
      units.look_at(one, described);
      note_entries(one, described, choice, entry_problems);
      // The first field of the first file is taken where a constant's variable has times.
      const bool is_new = std::ranges::any_of(
          constant.outputs, [&](int64_t output) { return output >= 0 && !constants_found.contains(output); });
      constants_found.insert(constant.outputs.begin(), constant.outputs.end());
      const bool is_repeated = !constant.outputs.empty() && !described.has_times;
      if (is_new || is_repeated) plan.constants.push_back(std::move(constant));
      if (!piece.outputs.empty() && described.has_times) plan.pieces.push_back(std::move(piece));
    }
  }
  throw_problems(units.problems, "variables with units that do not fit");
  throw_problems(entry_problems, "variables with entries that do not fit");
  if (selection.variables.empty()) plan.left_out = choice.left_out;
  FieldsDescription& description = plan.description;
  description.variables = std::move(choice.variables);
  description.constants = std::move(choice.constants);
  set_units(description.variables, selection);
  set_units(description.constants, selection);
  description.latitudes = scanned.grid.latitudes;
  description.longitudes = scanned.grid.longitudes;
  description.calendar = scanned.calendar;
  plan.axes = std::move(scanned.axes);
  place_times(plan, selection.allow_gaps);
  place_splits(description, selection.splits);
  return plan;
}

}  // namespace terrace::data
