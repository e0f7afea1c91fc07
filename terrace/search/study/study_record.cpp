// Writes the record as lines, of which the first different one is shown.
#include "terrace/search/study/study_record.h"

#include <fmt/ranges.h>

#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/config/key_values.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/models/planned_families.h"
#include "terrace/search/study/placeholders.h"

namespace terrace::search {
namespace {

std::string record_of(const Study& study) {
  const StudySettings& settings = study.settings;
  std::string text;
  for (const Goal& goal : settings.goals) {
    text += fmt::format("objective = {}, {}\n", goal.figure, goal.minimizes ? "to be minimized" : "to be maximized");
  }
  if (settings.evaluator == Evaluator::command) text += fmt::format("command = {}\n", settings.command);
  if (settings.evaluator == Evaluator::train) text += "trials are training runs\n";
  if (settings.method == Method::successive_halving) {
    text += fmt::format("budgets = {}\n", fmt::join(settings.halving.budgets(), ", "));
  }
  for (const Derived& one : study.space.derived()) text += fmt::format("{} = {}\n", one.name, one.expression.text());
  if (settings.config.empty()) return text;
  const config::Config config = config::load_for_plan(settings.config, models::planned_families());
  for (const auto& [key, value] : config::key_values(config)) text += fmt::format("{} = {}\n", key, value);
  if (settings.evaluator != Evaluator::simulate) return text;
  if (study.noise_scale > 0) text += fmt::format("noise_scale = {}\n", study.noise_scale);
  if (!names_in_braces(settings.machine).empty()) return text + fmt::format("machine = {}\n", settings.machine);
  return text + machine::dump(machine::load(settings.machine)) +
         machine::dump(machine::load_software(settings.software));
}

std::string text_of(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(toml_text(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string text_of(const Parameter& parameter) {
  const char* const types[] = {"integer", "real", "ordered", "categorical"};
  std::string text = fmt::format("{}: {} ", parameter.name, types[static_cast<size_t>(parameter.type)]);
  text += parameter.has_values() ? text_of(parameter.values) : fmt::format("[{}, {}]", parameter.low, parameter.high);
  if (parameter.log) text += ", log";
  for (const Condition& one : parameter.when)
    text += fmt::format(", when {} in {}", one.parameter, text_of(one.values));
  return text;
}

const char* word_of(Method method) {
  switch (method) {
    case Method::automatic:
      return "automatic";
    case Method::bayesian:
      return "bayesian";
    case Method::random:
      return "random";
    case Method::exhaustive:
      return "exhaustive";
    case Method::successive_halving:
      break;
  }
  return "successive_halving";
}

std::filesystem::path path_in(const std::filesystem::path& folder) { return folder / "study.txt"; }

}  // namespace

void write_record(const std::filesystem::path& folder, const Study& study) {
  write_text_atomically(path_in(folder), record_of(study));
}

void check_record(const std::filesystem::path& folder, const Study& study) {
  if (!std::filesystem::exists(path_in(folder))) return;
  std::istringstream then(read_text(path_in(folder))), now(record_of(study));
  std::string earlier, line;
  while (then || now) {
    if (!std::getline(then, earlier)) earlier = "nothing";
    if (!std::getline(now, line)) line = "nothing";
    if (earlier == line) continue;
    throw UserError::of("{} holds trials with '{}' where this search has '{}'; use another --output", folder.string(),
                        earlier, line);
  }
}

std::vector<std::string> identity_of(const Study& study) {
  std::vector<std::string> lines = {
      fmt::format("method = {}", word_of(study.settings.method_is_chosen ? Method::automatic : study.settings.method))};
  if (study.settings.predicts_first) lines.emplace_back("predictions propose");
  for (const Parameter& parameter : study.space.parameters()) lines.push_back(text_of(parameter));
  for (const Expression& one : study.space.constraints()) lines.push_back(fmt::format("constraint {}", one.text()));
  std::istringstream record(record_of(study));
  for (std::string line; std::getline(record, line);) lines.push_back(line);
  return lines;
}

}  // namespace terrace::search
