// Reads TOML and overrides into a checked configuration.
#include "terrace/config/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <map>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/config/load_for_check.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/config/not_built.h"
#include "terrace/config/other_format.h"
#include "terrace/config/other_names.h"
#include "terrace/config/problems.h"
#include "terrace/config/read_phases.h"

namespace terrace::config {
namespace {

// A value from the file or the command line; the node belongs to a table of Input.
struct Given {
  const toml::node* node;
  Location place;
};

// The contents of the file and of the command line, and the problems found so far.
struct Input {
  std::string file_name;
  const Families& families;
  const Family* family = nullptr;  // null if model.family is unknown; then [model] and [data] are not read
  std::vector<Key> keys = {};      // keys_of(family)
  toml::table table = {};
  std::vector<toml::table> overrides = {};
  std::map<std::string, Given> given = {};  // by full name
  std::vector<Problem> problems = {};
  FileProblems file_problems = nullptr;  // reported beside other problems
  bool whole = true;                     // every required key must be given, not only those that a planner needs

  Location at(const toml::source_region& region) const {
    const int line = static_cast<int>(region.begin.line), column = static_cast<int>(region.begin.column);
    return {Location::Source::line, line, column, fmt::format("{}:{}:{}", file_name, line, column)};
  }
  Location whole_file() const { return {Location::Source::file, 0, 0, file_name}; }
};

// The other families that have the key, as `"vit" and "gnn"`; "" if there are none.
std::string other_families_with(const Input& input, const std::string& full_name) {
  std::vector<std::string> names;
  for (const Family* family : input.families) {
    if (family != input.family && find_key(family->settings.keys, full_name) != nullptr) {
      names.push_back(toml_text(family->name));
    }
  }
  return listed(names, "and");
}

// "; did you mean KEY?" if other programs call one of this configuration's keys `name`, with what else there is to say;
// "" if none does. The key stands without its section if that is `section`.
std::string meant_by_others(const Input& input, const std::string& section, const std::string& name) {
  const OwnName own =
      own_name_of(name, input.family != nullptr ? input.family->settings.other_names : std::vector<OtherName>{});
  if (find_key(input.keys, own.key) == nullptr) return "";
  const std::string key = own.key.starts_with(section + ".") ? own.key.substr(section.size() + 1) : own.key;
  return fmt::format("; did you mean {}{}?{}", key, own.value.empty() ? "" : " = " + own.value,
                     own.note.empty() ? "" : " " + own.note);
}

// The tables with a key of this name, as "[train]".
std::vector<std::string> sections_with(const Input& input, const std::string& name) {
  std::vector<std::string> sections;
  for (const Key& key : input.keys) {
    if (key.name == name) sections.push_back("[" + key.section + "]");
  }
  return sections;
}

std::string unknown_key(const Input& input, const std::string& section, const std::string& name) {
  const std::string full_name = section + "." + name, families = other_families_with(input, full_name);
  if (!families.empty()) {
    return fmt::format("{} belongs to model.family = {}, not to \"{}\"; remove it", full_name, families,
                       input.family->name);
  }
  std::vector<std::string> here;
  for (const Key& key : input.keys) {
    if (key.section == section) here.push_back(key.name);
  }
  const std::vector<std::string> elsewhere = sections_with(input, name);
  std::string text = fmt::format("unknown key {}", full_name);
  if (!elsewhere.empty()) return text + fmt::format("; {} belongs to {}", name, listed(elsewhere));
  const std::string others = meant_by_others(input, section, name);
  if (!others.empty()) return text + others;
  const std::string nearest = nearest_word(name, here);
  if (!nearest.empty()) return text + fmt::format("; did you mean {}?", nearest);
  return text + fmt::format("; [{}] has {}", section, listed(here, "and"));
}

std::string unknown_table(const Input& input, const std::string& name) {
  std::string text = fmt::format("unknown table [{}]", name);
  const std::string others = meant_by_others(input, "", name);
  if (!others.empty()) return text + others;
  const std::string nearest = nearest_word(name, section_names());
  return text + (nearest.empty() ? fmt::format("; there are {}", listed(section_names(), "and"))
                                 : fmt::format("; did you mean [{}]?", nearest));
}

// Whether the keys of the section are unknown because the family is unknown.
bool is_unread(const Input& input, const std::string& section) {
  return input.family == nullptr && is_family_section(section);
}

// Why the key is refused; "" if it exists or its section is not read.
std::string refusal(const Input& input, const std::string& section, const std::string& name) {
  const std::string full_name = section + "." + name;
  const bool known_name = find_key(input.keys, full_name) != nullptr || full_name == phases_key;
  if (known_name || is_unread(input, section)) return "";
  const std::string reason = not_built(section, name);
  if (!reason.empty()) return fmt::format("{}: {}", full_name, reason);
  const std::vector<std::string> sections = section_names();
  const bool known = std::find(sections.begin(), sections.end(), section) != sections.end();
  return known ? unknown_key(input, section, name) : unknown_table(input, section);
}

void collect_section(Input& input, const std::string& section, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name{key.str()};
    const std::string problem = refusal(input, section, name);
    if (!problem.empty()) {
      input.problems.push_back({input.at(key.source()), problem});
    } else {
      input.given[section + "." + name] = {&node, input.at(node.source())};
    }
  }
}

void collect_file(Input& input) {
  const std::vector<std::string> sections = section_names();
  for (const auto& [key, node] : input.table) {
    const std::string name{key.str()};
    const bool known = std::find(sections.begin(), sections.end(), name) != sections.end();
    const std::string reason = not_built(name, "");
    const toml::table* table = node.as_table();
    if (table != nullptr && (known || (!reason.empty() && !table->empty()))) {
      collect_section(input, name, *table);
      continue;
    }
    std::string problem = unknown_table(input, name);
    if (!reason.empty()) {
      problem = fmt::format("[{}]: {}", name, reason);
    } else if (known) {
      problem = fmt::format("{} must be one table, written [{}]", name, name);
    } else if (table == nullptr) {
      const std::vector<std::string> owners = sections_with(input, name);
      problem = owners.empty()
                    ? fmt::format("unknown key {} outside of any table{}", name, meant_by_others(input, "", name))
                    : fmt::format("{} stands outside of any table; it belongs to {}", name, listed(owners));
    }
    input.problems.push_back({input.at(key.source()), problem});
  }
}

// Returns a --set as a user types it: the shell would remove quotation marks that nothing protects.
std::string in_shell(const std::string& full_name, const std::string& value) {
  return "--set " + shell_word(full_name + "=" + value);
}

// The value of an override of a key as a table with the one key "value".
toml::table parse_override_value(const std::string& full_name, const std::string& text) {
  if (text.find_first_of("\r\n") != std::string::npos) throw UserError("the value must be one line");
  if (text.empty()) throw UserError::of("no value; an empty string is {}", in_shell(full_name, "\"\""));
  try {
    toml::table table = toml::parse("value = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
    if (text.find_first_of("\"'[]{}#") != std::string::npos) {
      throw UserError::of("the value is not valid TOML; put quotation marks around strings inside lists, such as {}",
                          in_shell(full_name, "[\"a\", \"b\"]"));
    }
  }
  try {
    return toml::parse("value = " + toml_text(std::string_view(text)));
  } catch (const toml::parse_error&) {
    throw UserError("the value is not valid UTF-8");
  }
}

// "; did you mean train.steps?" for a key without its section, by our name or by that of another program.
std::string meant(const Input& input, const std::string& name) {
  for (const Key& key : input.keys) {
    if (key.name == name) return fmt::format("; did you mean {}?", key.full_name());
  }
  return meant_by_others(input, "", name);
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

void add_override(Input& input, const std::string& text) {
  const Location place{Location::Source::override_, static_cast<int>(input.overrides.size()), 0, "--set " + text};
  const auto refuse = [&](const std::string& problem) { input.problems.push_back({place, problem}); };
  const size_t equals = text.find('=');
  const std::string full_name = trimmed(text.substr(0, equals));
  const size_t dot = full_name.find('.');
  if (equals == std::string::npos || dot == std::string::npos) {
    return refuse("must be section.key=value, such as train.steps=100" +
                  (equals == std::string::npos ? "" : meant(input, full_name)));
  }
  const std::string problem = refusal(input, full_name.substr(0, dot), full_name.substr(dot + 1));
  if (!problem.empty()) return refuse(problem);
  try {
    input.overrides.push_back(parse_override_value(full_name, trimmed(text.substr(equals + 1))));
    input.given[full_name] = {input.overrides.back().get("value"), place};
  } catch (const UserError& error) {
    refuse(error.what());
  }
}

void add_missing(Input& input, const Key& key) {
  const toml::node* table = input.table.get(key.section);
  const Location place = table != nullptr && table->is_table() ? input.at(table->source()) : input.whole_file();
  input.problems.push_back({place, fmt::format("{} is missing; add to [{}] a line such as {} = {}", key.full_name(),
                                               key.section, key.name, key.example)});
}

bool is_planned_section(const std::string& section) {
  return section == "model" || section == "train" || section == "layout";
}

// Says how to give a --set that is read as a number, such as the name 123, as a string; "" if that would not help.
std::string string_advice(const Key& key, const toml::node& node, Config& config) {
  const std::string text = toml_text(std::string_view(shown(node)));
  if (node.is_string() || node.is_array() || node.is_table()) return "";
  if (!key.read(toml::value<std::string>(shown(node)), config).empty()) return "";
  return fmt::format(", in a shell {}", in_shell(key.full_name(), text));
}

// Reads a list of tables, whose problems are reported each at its own place; returns whether there are none.
bool read_tables(Input& input, const Key& key, const Given& given, Config& config) {
  const std::vector<TableProblem> problems = key.read_tables(*given.node, config);
  for (const TableProblem& problem : problems) {
    const bool in_file = given.place.source != Location::Source::override_;
    input.problems.push_back({in_file ? input.at(problem.where) : given.place, problem.text});
  }
  return problems.empty();
}

// Reads every key; returns the full names of those without a valid value.
std::set<std::string> read_keys(Input& input, Config& config) {
  std::set<std::string> invalid;
  for (const Key& key : input.keys) {
    const auto found = input.given.find(key.full_name());
    if (found == input.given.end()) {
      if (!key.required()) continue;
      if (!input.whole && !is_planned_section(key.section)) {
        const toml::table table = toml::parse("value = " + key.example);
        TERRACE_CHECK(key.read(*table.get("value"), config).empty(), "{} refuses its example", key.full_name());
        continue;
      }
      add_missing(input, key);
      invalid.insert(key.full_name());
      continue;
    }
    const auto& [node, place] = found->second;
    if (key.read_tables != nullptr) {
      if (!read_tables(input, key, found->second, config)) invalid.insert(key.full_name());
      continue;
    }
    std::string problem = key.read(*node, config);
    if (problem.empty()) continue;
    if (place.source == Location::Source::override_) problem += string_advice(key, *node, config);
    input.problems.push_back({place, fmt::format("{} = {} {}", key.full_name(), shown(*node), problem)});
    invalid.insert(key.full_name());
  }
  return invalid;
}

// Returns the place at which the problem of a rule is reported: the override of one of its keys, otherwise the first of
// its keys that the file contains.
Location place_of_problem(const Input& input, const Rule& rule) {
  Location place = input.whole_file();
  for (const std::string& name : rule.keys) {
    const auto found = input.given.find(name);
    if (found == input.given.end()) continue;
    if (found->second.place.source == Location::Source::override_) return found->second.place;
    if (place.source == Location::Source::file) place = found->second.place;
  }
  return place;
}

bool is_override(const Input& input, const std::string& name) {
  const auto found = input.given.find(name);
  return found != input.given.end() && found->second.place.source == Location::Source::override_;
}

void set_to_default(const Key& key, Config& config) {
  const toml::table table = toml::parse("value = " + key.write(config_of(*config.family)));
  TERRACE_CHECK(key.read(*table.get("value"), config).empty(), "{} refuses its default", key.full_name());
}

// Gives keys without effect their defaults. If another key of the same file is the reason, that is a problem. If a
// --set is involved, the run only warns, since a --set is often one of many runs that vary the same file.
void check_idle(Input& input, Config& config, const std::set<std::string>& invalid, IdleKeys idle) {
  const Config given = config;
  for (const IdleRule& rule : idle_rules_of(input.family)) {
    const auto found = input.given.find(rule.key);
    const auto unknown = [&](const std::string& name) { return invalid.contains(name); };
    if (found == input.given.end() || unknown(rule.key) || std::ranges::any_of(rule.causes, unknown)) continue;
    const std::string reason = idle_beside(given, rule.key);
    if (reason.empty()) continue;
    if (idle == IdleKeys::keep && is_override(input, rule.key)) continue;
    const Key& key = *find_key(input.keys, rule.key);
    const std::string value = key.write(given);
    set_to_default(key, config);
    if (value == rule.off) continue;
    const Location& place = found->second.place;
    const std::string text = fmt::format("{} = {} has no effect {}", rule.key, value, reason);
    const auto overrides = [&](const std::string& name) { return is_override(input, name); };
    if (idle == IdleKeys::warn || overrides(rule.key) || std::ranges::any_of(rule.causes, overrides)) {
      config.idle.push_back(fmt::format("{}: {}", place.text, text));
    } else if (idle == IdleKeys::refuse) {
      input.problems.push_back({place, text});
    }
  }
}

void check_rules(Input& input, const std::vector<Rule>& rules, const Config& config,
                 const std::set<std::string>& invalid) {
  for (const Rule& rule : rules) {
    const bool known = std::none_of(rule.keys.begin(), rule.keys.end(),
                                    [&](const std::string& name) { return invalid.contains(name); });
    const std::string problem = known ? rule.problem(config) : "";
    if (!problem.empty()) input.problems.push_back({place_of_problem(input, rule), problem});
  }
}

// Reads [[data.phases]] on top of all other keys. Rules are checked if every other key is valid.
void add_phases(Input& input, Config& config, bool check_rules) {
  const auto found = input.given.find(phases_key);
  if (found == input.given.end()) return;
  const auto& [node, place] = found->second;
  const bool in_file = place.source != Location::Source::override_;
  for (PhaseProblem& problem : read_phases(*node, check_rules, config)) {
    input.problems.push_back({in_file ? input.at(problem.where) : place, std::move(problem.text)});
  }
}

// Chooses the family: by the last override of model.family, otherwise by the file, otherwise the first family.
void find_family_of(Input& input, const std::vector<std::string>& overrides) {
  TERRACE_CHECK(!input.families.empty(), "no family of models to read {} with", input.file_name);
  toml::table given_by_override;
  const toml::node* node = nullptr;
  Location place;
  if (const toml::table* model = input.table["model"].as_table(); model != nullptr && model->contains("family")) {
    node = model->get("family");
    place = input.at(node->source());
  }
  for (size_t i = 0; i < overrides.size(); ++i) {
    const size_t equals = overrides[i].find('=');
    if (equals == std::string::npos || trimmed(overrides[i].substr(0, equals)) != "model.family") continue;
    try {
      given_by_override = parse_override_value("model.family", trimmed(overrides[i].substr(equals + 1)));
    } catch (const UserError&) {
      continue;  // add_override() reports it
    }
    node = given_by_override.get("value");
    place = {Location::Source::override_, static_cast<int>(i), 0, "--set " + overrides[i]};
  }
  if (node == nullptr) {
    input.family = input.families.front();
  } else {
    Word names;
    for (const Family* family : input.families) names.words.push_back(family->name);
    std::string name;
    const std::string problem = names.read(*node, name);
    input.family = find_family(input.families, name);
    if (!problem.empty()) {
      input.problems.push_back({place, fmt::format("model.family = {} {}", shown(*node), problem)});
    }
  }
  input.keys = keys_of(input.family);
}

// The problems with the files that the configuration names, if there are others already and the names are known.
void add_file_problems(Input& input, const Config& config, const std::set<std::string>& invalid) {
  if (input.problems.empty() || input.file_problems == nullptr) return;
  const auto names_files = [](const std::string& key) {
    return key.starts_with("data.") || key.starts_with("checkpoint.") || key == "model.vocabulary" ||
           key == "train.initial_weights";
  };
  if (std::ranges::any_of(invalid, names_files)) return;
  for (const std::string& text : input.file_problems(config)) input.problems.push_back({input.whole_file(), text});
}

Config read(Input input, const std::string& toml, const std::vector<std::string>& overrides, IdleKeys idle) {
  try {
    input.table = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    const std::string other = other_format(toml);
    if (!other.empty()) throw UserError::of("{}: {}; docs/configuration.md has all keys", input.file_name, other);
    throw UserError::of("{}: {}", input.at(error.source()).text, error.description());
  }
  find_family_of(input, overrides);
  collect_file(input);
  input.overrides.reserve(overrides.size());  // Given::node points into the elements
  for (const std::string& text : overrides) add_override(input, text);
  Config config = input.family == nullptr ? Config{} : config_of(*input.family);
  const std::set<std::string> invalid = read_keys(input, config);
  // The rules between keys need the family.
  if (input.family == nullptr) report(std::move(input.problems), input.file_name);
  check_idle(input, config, invalid, idle);
  const size_t before_phases = input.problems.size();
  add_phases(input, config, invalid.empty());
  if (input.problems.size() > before_phases) input.file_problems = nullptr;  // what the phases name is not known
  check_rules(input, core_rules(), config, invalid);
  check_rules(input, input.family->settings.rules, config, invalid);
  add_file_problems(input, config, invalid);
  report(std::move(input.problems), input.file_name);
  if (input.family->settings.derive != nullptr) input.family->settings.derive(config);
  return config;
}

}  // namespace

Config parse(const std::string& toml, const std::string& file_name, const Families& families,
             const std::vector<std::string>& overrides, IdleKeys idle) {
  return read({.file_name = file_name, .families = families}, toml, overrides, idle);
}

Config load(const std::filesystem::path& path, const Families& families, const std::vector<std::string>& overrides) {
  return parse(read_text(path), path.string(), families, overrides);
}

Config load_for_check(const std::filesystem::path& path, const Families& families,
                      const std::vector<std::string>& overrides, const FileProblems& problems) {
  return read({.file_name = path.string(), .families = families, .file_problems = problems}, read_text(path), overrides,
              IdleKeys::refuse);
}

Config load_for_plan(const std::filesystem::path& path, const Families& families,
                     const std::vector<std::string>& overrides, IdleKeys idle) {
  return parse_for_plan(read_text(path), path.string(), families, overrides, idle);
}

Config parse_for_plan(const std::string& toml, const std::string& file_name, const Families& families,
                      const std::vector<std::string>& overrides, IdleKeys idle) {
  return read({.file_name = file_name, .families = families, .whole = false}, toml, overrides, idle);
}

}  // namespace terrace::config
