// Puts the tables of SPACE.toml together and checks them against each other and against the configuration.
#include "terrace/search/study/study.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/family.h"
#include "terrace/config/key_values.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/layouts/same_loss.h"
#include "terrace/search/commands.h"
#include "terrace/search/evaluate.h"
#include "terrace/search/study/placeholders.h"
#include "terrace/search/study/study_conditions.h"
#include "terrace/search/study/study_evaluations.h"
#include "terrace/search/study/study_keys.h"

namespace terrace::search {
namespace {

using config::OpenTable;

// An expression of [derived], or that of search.devices.
struct NamedText {
  std::string name, text;
  toml::source_region where;
};

class StudyReader {
 public:
  StudyReader(const std::string& toml, const std::string& file_name)
      : file_(toml, file_name), root_(file_, file_.root(), "", ""), file_name_(file_name) {}

  Study read() {
    read_search();
    read_halving();
    read_parameters();
    conditions_.check(parameters_);
    read_derived();
    root_.refuse_unknown();
    if (devices_missing()) search_->refuse_missing("devices", "8");
    if (config_ || has_no_config()) check_names();
    if (search_) check_goals();
    sort_derived();
    check_always_known();
    file_.report();
    if (settings().parallel == 0 && settings().evaluator != Evaluator::simulate) settings().parallel = 1;
    std::vector<Expression> constraints;
    for (const std::string& text : table_.constraints) constraints.emplace_back(text);
    Study study{.settings = settings(),
                .space = Space(parameters_, derived_, constraints, constants_),
                .figures = figures_,
                .family = config_ ? config_->family : nullptr,
                .noise_scale = noise_scale_,
                .reference_batch = config_ ? config_->train.global_batch : 0};
    check_constraints(study.space);
    return study;
  }

 private:
  StudySettings& settings() { return table_.settings; }
  const StudySettings& settings() const { return table_.settings; }
  bool has_parameter(const std::string& name) const {
    return std::ranges::find(parameters_, name, &Parameter::name) != parameters_.end();
  }
  bool has_derived(const std::string& name) const {
    return std::ranges::find(texts_, name, &NamedText::name) != texts_.end();
  }

  void read_search() {
    search_ = root_.find_table("search");
    if (!search_) return root_.refuse_missing_table("search");
    read_search_table(*search_, table_);
    settings().method = method_of(table_.method);
    read_noise_scale();
    if (settings().config.empty() || !search_->is_valid("config")) return;
    try {
      config_ = table_.trains()
                    ? config::load(settings().config, models::planned_families(), {"checkpoint.folder=\"runs/search\""})
                    : config::load_for_plan(settings().config, models::planned_families());
    } catch (const UserError& error) {
      return search_->refuse("config", fmt::format("cannot be read: {}", error.what()));
    }
    for (const auto& [name, text] : config::key_values(*config_)) {
      if (const std::optional<double> number = parse_number(text)) constants_[name] = *number;
    }
  }

  void read_noise_scale() {
    if (settings().noise_scale.empty() || !search_->is_valid("noise_scale")) return;
    try {
      noise_scale_ = plan::noise_scale_of(settings().noise_scale).samples;
    } catch (const UserError& error) {
      search_->refuse("noise_scale", error.what());
    }
  }

  // A command needs no configuration. Its parameters are then known by the names that it gives them.
  bool has_no_config() const { return search_ && table_.is_command() && settings().config.empty(); }

  void read_halving() {
    std::optional<OpenTable> table = root_.find_table("halving");
    const bool halves = table_.method == "successive_halving";
    if (!search_) return;
    if (!table) {
      if (halves && root_.is_valid("halving")) root_.refuse_missing_table("halving");
      return;
    }
    Halving& halving = settings().halving;
    read_halving_table(*table, halving);
    if (!halves || settings().evaluator == Evaluator::simulate) {
      return root_.refuse("halving",
                          "has no effect without method = \"successive_halving\" and trials that train or "
                          "are commands; remove it");
    }
    if (!table->all_valid()) return;
    if (!table_.trains()) {
      if (halving.most == 0) table->refuse_missing("most", std::to_string(halving.first * 27));
      return;
    }
    if (!config_) return;
    const int64_t steps = config_->train.steps;
    if (halving.most > steps) {
      table->refuse("most", fmt::format("is more than train.steps = {} of {}", steps, settings().config));
    }
    if (halving.most == 0) halving.most = steps;
    if (halving.first >= halving.most) {
      table->refuse("first", fmt::format("must lie below the {} steps that the best trials make", halving.most));
    }
  }

  // Calls found(table, name) for each table below that describes one parameter. The name of a key has a dot, with which
  // TOML separates tables: a table that has only tables is a part of a name.
  template <typename Found>
  void for_each_parameter(const toml::table& table, const std::string& path, const Found& found) {
    for (const auto& [key, node] : table) {
      const std::string name = path + std::string(key.str());
      const toml::table* below = node.as_table();
      if (below == nullptr) {
        file_.refuse(node.source(), fmt::format("parameters.{} must be a table, written [parameters.{}]", name, name));
      } else if (!below->empty() && !below->contains("when") &&
                 std::ranges::all_of(*below, [](const auto& one) { return one.second.is_table(); })) {
        for_each_parameter(*below, name + ".", found);
      } else {
        found(*below, name);
      }
    }
  }

  void read_parameters() {
    const toml::node* node = root_.find("parameters");
    const toml::table* table = node == nullptr ? nullptr : node->as_table();
    if (table == nullptr || table->empty()) {
      return root_.refuse("parameters",
                          "has no parameter, so the space is empty; add a table such as "
                          "[parameters.layout.tensor]");
    }
    for_each_parameter(*table, "", [&](const toml::table& one, const std::string& name) {
      OpenTable open(file_, one, "parameters." + name + ".", "[parameters." + name + "]");
      Parameter parameter{.name = name};
      const bool valid = read_parameter_table(open, parameter);
      conditions_.read(one, valid, parameter);
      parameters_.push_back(parameter);
      places_[name] = one.source();
      if (valid && config_ && is_key(name)) check_values(open, parameter);
    });
  }

  // Every value of a key of the configuration must be a value of the key.
  void check_values(OpenTable& open, const Parameter& parameter) {
    const std::vector<config::Key> keys = config::keys_of(config_->family);
    const config::Key* key = config::find_key(keys, parameter.name);
    if (key == nullptr) return;
    std::vector<Value> values = parameter.values;
    if (!parameter.has_values()) values = {parameter.value(parameter.low), parameter.value(parameter.high)};
    for (const Value& value : values) {
      config::Config changed = *config_;
      const toml::table text = toml::parse("value = " + toml_text(value));
      const std::string problem = key->read(*text.get("value"), changed);
      if (problem.empty()) continue;
      return open.refuse(parameter.has_values() ? "values" : "range",
                         fmt::format("has {}, but {} {}", toml_text(value), parameter.name, problem));
    }
  }

  // A refused expression stands as 1 in texts_, so that its name is known in others.
  void read_derived() {
    const toml::node* devices = search_ ? search_->find("devices") : nullptr;
    if (devices != nullptr) {
      const bool valid = search_->is_valid("devices");
      texts_.push_back({"devices", valid ? settings().devices : "1", devices->source()});
      if (valid && has_parameter("devices")) search_->refuse("devices", "is a parameter too; keep one of the two");
    }
    const toml::node* node = root_.find("derived");
    if (node == nullptr) return;
    if (const toml::table* table = node->as_table()) return read_derived_below(*table, "");
    root_.refuse("derived", "must be one table, written [derived]");
  }

  void read_derived_below(const toml::table& table, const std::string& path) {
    for (const auto& [key, node] : table) {
      const std::string name = path + std::string(key.str());
      if (const toml::table* below = node.as_table()) {
        read_derived_below(*below, name + ".");
        continue;
      }
      std::string text = "1";
      std::string problem = read_expression(node, text);
      if (problem.empty() && has_parameter(name)) problem = "is a parameter too; keep one of the two";
      if (problem.empty() && has_derived(name)) problem = "is given twice; keep one";
      if (!problem.empty()) {
        file_.refuse(node.source(), fmt::format("derived.{} = {} {}", name, config::shown(node), problem));
      }
      texts_.push_back({name, text, node.source()});
    }
  }

  bool devices_missing() const {
    return search_ && !table_.is_command() && !has_derived("devices") && !has_parameter("devices");
  }

  // Says what is wrong with a name that the file gives; "" if it is a key of the configuration, or expressions use it.
  std::string name_problem(const std::string& name, const std::set<std::string>& used) const {
    if (!is_key(name) || !config_) {
      return used.contains(name) || name == "devices"
                 ? ""
                 : fmt::format("has no effect: it is no key, and no expression{} names it; use it or remove it",
                               table_.is_command() ? " or command" : "");
    }
    std::vector<std::string> names;
    for (const config::Key& key : config::keys_of(config_->family)) names.push_back(key.full_name());
    if (std::ranges::find(names, name) != names.end()) return "";
    const std::string nearest = nearest_word(name, names);
    return "is no key of a configuration; " +
           (nearest.empty() ? "docs/configuration.md lists them" : fmt::format("did you mean {}?", nearest));
  }

  // Says what is wrong with the names in an expression; "" if nothing is.
  std::string expression_problem(const Expression& expression) const {
    std::vector<std::string> known;
    for (const Parameter& parameter : parameters_) known.push_back(parameter.name);
    for (const NamedText& one : texts_) known.push_back(one.name);
    for (const auto& [name, number] : constants_) known.push_back(name);
    for (const std::string& name : expression.names()) {
      if (std::ranges::find(known, name) == known.end()) {
        const std::string nearest = nearest_word(name, known);
        return fmt::format("names {}, which is neither a parameter nor derived nor a key with a number", name) +
               (nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
      }
      const auto parameter = std::ranges::find(parameters_, name, &Parameter::name);
      if (parameter == parameters_.end()) continue;
      const auto word = std::ranges::find_if(
          parameter->values, [](const Value& value) { return std::holds_alternative<std::string>(value); });
      if (word != parameter->values.end()) {
        return fmt::format("names {}, which is a word such as {}; expressions take numbers", name, toml_text(*word));
      }
    }
    return "";
  }

  void check_names() {
    std::set<std::string> used = conditions_.names();
    const auto check = [&](const std::string& text) {
      const Expression expression(text);
      used.insert(expression.names().begin(), expression.names().end());
      return expression_problem(expression);
    };
    for (const NamedText& one : texts_) {
      const std::string problem = check(one.text);
      if (!problem.empty()) file_.refuse(one.where, fmt::format("{} = \"{}\" {}", one.name, one.text, problem));
    }
    for (const std::string& text : table_.constraints) {
      const std::string problem = check(text);
      if (!problem.empty()) search_->refuse("constraints", fmt::format("has \"{}\", which {}", text, problem));
    }
    if (table_.is_command()) check_command(used);
    for (const std::string& name : names_in_braces(settings().machine)) {
      if (!has_parameter(name) && !has_derived(name)) {
        search_->refuse("machine", fmt::format("names {{{}}}, which is neither a parameter nor derived", name));
      }
      used.insert(name);
    }
    for (const auto& [name, place] : places_) {
      const std::string problem = name_problem(name, used);
      if (!problem.empty()) file_.refuse(place, fmt::format("parameters.{} {}", name, problem));
    }
    for (const NamedText& one : texts_) {
      const std::string problem = name_problem(one.name, used);
      if (!problem.empty()) file_.refuse(one.where, fmt::format("derived.{} {}", one.name, problem));
    }
  }

  // Without devices or a machine no trial can be made.
  void check_always_known() {
    std::vector<std::string> needed = names_in_braces(settings().machine);
    needed.emplace_back("devices");
    const std::set<std::string> missing = sometimes_missing(parameters_, derived_);
    for (const std::string& name : needed) {
      if (!missing.contains(name)) continue;
      const auto text = std::ranges::find(texts_, name, &NamedText::name);
      file_.refuse(text == texts_.end() ? places_.at(name) : text->where,
                   fmt::format("{} exists only under a condition, by when of it or of a parameter that it names, but "
                               "every trial needs it; use parameters without when",
                               name));
    }
  }

  void check_command(std::set<std::string>& used) {
    const std::vector<std::string> names = names_in_braces(settings().command);
    std::vector<std::string> known(std::begin(command_names), std::end(command_names));
    for (const Parameter& parameter : parameters_) known.push_back(parameter.name);
    for (const NamedText& one : texts_) known.push_back(one.name);
    for (const std::string& name : names) {
      used.insert(name);
      std::string problem;
      if (std::ranges::find(known, name) == known.end()) {
        problem = fmt::format("names {{{}}}, which is unknown; it may name {}", name, config::listed(known));
      } else if (name == "config" && settings().config.empty()) {
        problem = "names {config}, but search.config is missing; add it";
      }
      if (!problem.empty()) search_->refuse("command", problem);
    }
    const bool has_result = std::ranges::find(names, "result") != names.end();
    if (!has_result && search_->is_valid("command")) {
      search_->refuse("command", "does not name {result}, the path of the file into which it writes its figures");
    }
    // A key of the configuration reaches a command that names the configuration.
    if (std::ranges::find(names, "config") == names.end()) return;
    for (const Parameter& parameter : parameters_) used.insert(parameter.name);
    for (const NamedText& one : texts_) used.insert(one.name);
  }

  // The figures of the trials, with those of the goals, and the goals' directions.
  void check_goals() {
    if (!search_->is_valid("objective") || !search_->is_valid("evaluator")) return;
    if (!table_.is_command() && !config_) return;
    if (table_.is_command()) {
      for (const std::string& name : table_.figures) figures_.push_back({name});
    } else {
      figures_ = table_.trains() ? trained_figures(*config_) : simulated_figures(*config_->family, noise_scale_ > 0);
    }
    for (size_t i = 0; i < table_.objectives.size(); ++i) add_goal(i);
    const size_t directions = table_.directions.size();
    if (directions > 1 && directions != table_.objectives.size()) {
      search_->refuse("direction", fmt::format("has {} words for {} objectives; write one for each", directions,
                                               table_.objectives.size()));
    }
    if (settings().goals.size() > 1 && settings().predicts_first) {
      search_->refuse("objective",
                      "names several figures, but predictions propose by one; keep one, or use "
                      "evaluator = \"train\"");
    }
    if (settings().predicts_first && settings().method != Method::bayesian && settings().method != Method::automatic) {
      search_->refuse("method",
                      "does not go with evaluator = [\"simulate\", \"train\"], whose predictions propose; "
                      "remove it");
    }
    if (settings().goals.size() > 1 && settings().method == Method::successive_halving) {
      search_->refuse("objective", "names several figures, but successive halving compares trials by one; keep one");
    }
    if (!table_.trains() || !config_) return;
    const std::string problem = evaluation_problem(settings(), *config_);
    if (!problem.empty()) search_->refuse("objective", problem);
  }

  void add_goal(size_t i) {
    const std::string& name = table_.objectives[i];
    std::vector<std::string> names;
    for (const TrialFigure& figure : figures_) names.push_back(figure.name);
    auto figure = std::ranges::find(figures_, name, &TrialFigure::name);
    if (figure == figures_.end()) {
      // Commands have any figures.
      if (!table_.is_command()) {
        const std::string nearest = nearest_word(name, names);
        return search_->refuse(
            "objective",
            fmt::format("is no figure of a {} trial; use {}{}", table_.trains() ? "trained" : "simulated",
                        nearest.empty() ? "" : fmt::format("\"{}\", or another of ", nearest), config::listed(names)));
      }
      figure = figures_.insert(figures_.end(), {name});
    }
    if (settings().predicts_first) {
      const std::vector<TrialFigure> predicted = simulated_figures(*config_->family);
      if (std::ranges::find(predicted, name, &TrialFigure::name) == predicted.end()) {
        search_->refuse("objective",
                        fmt::format("has \"{}\", which is not predicted; use evaluator = \"train\"", name));
      }
    }
    const std::vector<std::string>& words = table_.directions;
    const std::string word = words.empty() ? "" : words.size() == 1 ? words[0] : i < words.size() ? words[i] : "";
    settings().goals.push_back({name, word.empty() ? figure->smaller_is_better : word == "minimize"});
  }

  // Orders the derived numbers so that each comes after those that it names.
  void sort_derived() {
    std::vector<NamedText> waiting = texts_;
    std::set<std::string> unknown;
    for (const NamedText& one : waiting) unknown.insert(one.name);
    while (!waiting.empty()) {
      const auto ready = std::ranges::find_if(waiting, [&](const NamedText& one) {
        const Expression expression(one.text);
        return std::ranges::none_of(expression.names(), [&](const auto& name) { return unknown.contains(name); });
      });
      if (ready == waiting.end()) {
        for (const NamedText& one : waiting) {
          file_.refuse(one.where,
                       fmt::format("{} = \"{}\" depends on itself; write it with other numbers", one.name, one.text));
        }
        return;
      }
      derived_.push_back({ready->name, Expression(ready->text), is_flag(ready->name)});
      unknown.erase(ready->name);
      waiting.erase(ready);
    }
  }

  bool is_flag(const std::string& name) const {
    if (!config_) return false;
    const std::vector<config::Key> keys = config::keys_of(config_->family);
    const config::Key* key = config::find_key(keys, name);
    if (key == nullptr) return false;
    const std::string value = key->write(*config_);
    return value == "true" || value == "false";
  }

  // Looks for a point that holds all constraints: among all points of a small space, among random ones of a large one.
  void check_constraints(const Space& space) const {
    if (space.constraints().empty()) return;
    constexpr uint64_t most = 200'000;
    const PhiloxKey key = stream_key(table_.settings.seed, "check of constraints");
    const bool is_whole = space.grid_size() && *space.grid_size() <= most;
    const uint64_t count = is_whole ? *space.grid_size() : most;
    std::vector<bool> held(space.constraints().size());
    for (uint64_t number = 0; number < count; ++number) {
      const Point point = is_whole ? space.grid_point(number) : *space.draw(key, number);
      if (space.holds_constraints(point)) return;
      const std::vector<bool> here = space.held_constraints(point);
      for (size_t i = 0; i < held.size(); ++i) held[i] = held[i] || here[i];
    }
    const auto never = std::ranges::find(held, false);
    const std::string which = never == held.end()
                                  ? "the constraints contradict each other: none"
                                  : fmt::format("the constraint \"{}\" is never true: none",
                                                space.constraints()[static_cast<size_t>(never - held.begin())].text());
    throw UserError::of("{}: {} of {} {} holds all of them; change the constraints or the values of the parameters",
                        file_name_, which, count, is_whole ? "points" : "random points");
  }

  config::TableFile file_;
  OpenTable root_;
  std::string file_name_;
  std::optional<OpenTable> search_;
  SearchTable table_;
  std::optional<config::Config> config_;
  ConditionReader conditions_{file_};
  std::map<std::string, double> constants_;  // the configuration's keys with numbers
  std::vector<Parameter> parameters_;
  std::map<std::string, toml::source_region> places_;  // of the parameters
  std::vector<NamedText> texts_;
  std::vector<Derived> derived_;
  std::vector<TrialFigure> figures_;
  double noise_scale_ = 0;
};

}  // namespace

Method method_of(const std::string& word) {
  if (word == "random") return Method::random;
  if (word == "successive_halving") return Method::successive_halving;
  if (word == "exhaustive") return Method::exhaustive;
  return word == "bayesian" ? Method::bayesian : Method::automatic;
}

std::vector<double> Study::goal_values(const std::vector<double>& trial_figures) const {
  std::vector<double> values;
  for (const Goal& goal : settings.goals) {
    const auto figure = std::ranges::find(figures, goal.figure, &TrialFigure::name);
    values.push_back(goal.signed_value(trial_figures[static_cast<size_t>(figure - figures.begin())]));
  }
  return values;
}

Study parse_study(const std::string& toml, const std::string& file_name) { return StudyReader(toml, file_name).read(); }

Study load_study(const std::string& path) { return parse_study(read_text(path), path); }

}  // namespace terrace::search
