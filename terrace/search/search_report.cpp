// Writes tables, JSON and configurations of the best trials.
#include "terrace/search/search_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/models/planned_families.h"
#include "terrace/search/ties.h"

namespace terrace::search {
namespace {

constexpr const char* ties_file = "tied.csv";
constexpr size_t most_shown_ties = 10;

// Says where the trial ran: "on 8 devices of frontier".
std::string shown_place(const Study& study, const Trial& trial) {
  if (!study.space.has("devices")) return "";
  const int64_t devices = devices_of(study, trial.point);
  if (study.settings.evaluator != Evaluator::simulate)
    return fmt::format(" on {} {}", devices, plural(devices, "rank"));
  return fmt::format(" on {} {} of {}", devices, plural(devices, "device"), study.settings.machine);
}

// Whether training can read the configuration, not only a planner.
bool is_complete(const Study& study, const Point& point) {
  try {
    config::load(study.settings.config, models::planned_families(), study.space.settings(point));
  } catch (const UserError&) {
    return false;
  }
  return true;
}

std::filesystem::path best_path(const std::filesystem::path& folder, size_t place) {
  return folder / fmt::format("best_{}.toml", place);
}

std::map<std::string, int64_t> counts_of_failures(const SearchResult& result) {
  std::map<std::string, int64_t> counts;
  for (const Trial& trial : result.trials) {
    if (trial.failed()) ++counts["F_" + trial.outcome.failure];
  }
  return counts;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      text += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], width) : row[i] + "\n";
    }
  }
  return text;
}

std::string shown_figure(const std::string& name, double value) {
  if (!std::isfinite(value)) return "unknown";
  if (name == "step_seconds" || name == "same_loss_seconds") return format_seconds(value);
  if (name == "memory_bytes") return format_bytes(value);
  if (name == "flops_per_device") return format_flops(value);
  if (name == "mfu" || name == "hfu") return fmt::format("{:.2f}%", 100 * value);
  return fmt::format("{:.6g}", value);
}

std::string shown_goals(const Study& study, const Trial& trial) {
  std::string text;
  for (size_t i = 0; i < trial.objectives.size(); ++i) {
    const Goal& goal = study.settings.goals[i];
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", goal.figure,
                        shown_figure(goal.figure, goal.signed_value(trial.objectives[i])));
  }
  return text;
}

std::vector<std::filesystem::path> write_best(const Study& study, const std::vector<Trial>& best,
                                              const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (study.settings.config.empty()) return files;
  for (const Trial& trial : best) {
    files.push_back(best_path(folder, files.size() + 1));
    write_text_atomically(files.back(),
                          fmt::format("# Trial {} of a search from {}: {}{}.\n{}", trial.trial, study.settings.config,
                                      shown_goals(study, trial), shown_place(study, trial),
                                      config::dump(configuration_of(study, trial.point))));
  }
  if (!best.empty() && !is_complete(study, best.front().point)) {
    log_warning("the best configurations are for planning only: {} lacks keys that training needs",
                study.settings.config);
  }
  for (size_t place = files.size() + 1; std::filesystem::remove(best_path(folder, place)); ++place) {
  }
  return files;
}

void write_ties(const Study& study, const SearchResult& result, const std::filesystem::path& folder) {
  const std::vector<Trial> tied = tied_with_best(study, result);
  if (tied.size() <= 1) {
    std::filesystem::remove(folder / ties_file);
    return;
  }
  std::string text = results_header(study);
  for (const Trial& trial : tied) text += results_row(study, trial);
  write_text_atomically(folder / ties_file, text);
}

std::string table_of(const Study& study, const std::vector<Trial>& best, bool shows_intervals) {
  shows_intervals = shows_intervals && std::ranges::any_of(best, [&](const Trial& trial) {
                      return goal_interval(study, trial).has_value();
                    });
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const Goal& goal : study.settings.goals) rows[0].push_back(goal.figure);
  if (shows_intervals) rows[0].emplace_back("as measured");
  rows[0].emplace_back("trial");
  for (const Parameter& parameter : study.space.parameters()) rows[0].push_back(parameter.name);
  for (const Trial& trial : best) {
    rows.push_back({std::to_string(rows.size())});
    for (size_t i = 0; i < trial.objectives.size(); ++i) {
      const Goal& goal = study.settings.goals[i];
      rows.back().push_back(shown_figure(goal.figure, goal.signed_value(trial.objectives[i])));
    }
    if (shows_intervals) {
      const auto interval = goal_interval(study, trial);
      const std::string& figure = study.settings.goals.front().figure;
      rows.back().push_back(interval ? fmt::format("{} to {}", shown_figure(figure, interval->first),
                                                   shown_figure(figure, interval->second))
                                     : "unknown");
    }
    rows.back().push_back(std::to_string(trial.trial));
    for (const std::string& value : study.space.shown(trial.point)) rows.back().push_back(value.empty() ? "-" : value);
  }
  return aligned(rows);
}

namespace {

// A line for each kind of failure, with the reason that a trial has.
std::string failure_examples(const SearchResult& result) {
  std::map<std::string, const Trial*> examples;
  for (const Trial& trial : result.trials) {
    if (trial.failed()) examples.emplace(trial.outcome.failure, &trial);
  }
  std::string text;
  for (const auto& [kind, trial] : examples) {
    text += fmt::format("F_{}, such as trial {}: {}\n", kind, trial->trial, trial->outcome.reason);
  }
  return text;
}

// Says which trials are tied with the best one, of which so many are shown.
std::string tie_text(size_t tied, size_t shown) {
  if (tied <= 1) return "";
  std::string text = fmt::format(
      "the first {} are a tie: their steps differ by less than the errors of published layouts of one model", tied);
  if (tied > shown) text += fmt::format("; {} of them are shown, and {} has all", shown, ties_file);
  return text + "\n";
}

}  // namespace

std::string text_of(const Study& study, const SearchResult& result, const std::vector<Trial>& best) {
  const auto parts = static_cast<int64_t>(result.trials.size());
  std::string text = counted(result.count(), "trial");
  if (parts > result.count()) text += fmt::format(" in {} parts", format_count(parts));
  text += fmt::format(": {} done, {} failed", format_count(parts - result.failed()), format_count(result.failed()));
  std::string kinds;
  for (const auto& [kind, count] : counts_of_failures(result)) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", format_count(count), kind);
  }
  if (!kinds.empty()) text += " (" + kinds + ")";
  if (result.resumed > 0) text += fmt::format("; {} of them by an earlier search", format_count(result.resumed));
  if (result.by_others > 0) text += fmt::format("; {} of them by other workers", format_count(result.by_others));
  const bool has_all = result.end == SearchEnd::points && study.settings.method == Method::exhaustive;
  if (result.end == SearchEnd::points) {
    text += has_all ? "; all points of the space were evaluated" : "; the space has no other point";
  }
  if (result.end == SearchEnd::time) text += "; the time was over";
  if (result.others > 0)
    text += fmt::format("; {} {} on", counted(result.others, "other worker"), plural(result.others, "goes", "go"));
  const std::vector<Trial> tied = tied_with_best(study, result);
  // With one goal both lists are the beginnings of the same one.
  const std::vector<Trial> shown = result.best(std::max(best.size(), std::min(tied.size(), most_shown_ties)));
  text += "\n";
  if (has_all) text += failure_examples(result);
  return text + table_of(study, shown, true) + tie_text(tied.size(), shown.size());
}

namespace {

Json trial_json(const Study& study, const Trial& trial) {
  Json values, figures, value = Json::array();
  for (size_t i = 0; i < study.space.parameters().size(); ++i) {
    const Parameter& parameter = study.space.parameters()[i];
    if (trial.point[i] == absent) continue;
    std::visit([&](const auto& own) { values[parameter.name] = own; }, parameter.value(trial.point[i]));
  }
  for (size_t i = 0; i < study.figures.size(); ++i) {
    const double figure = trial.outcome.figures[i];
    figures[study.figures[i].name] = std::isfinite(figure) ? Json(figure) : Json();
  }
  for (size_t i = 0; i < trial.objectives.size(); ++i) {
    value.push_back(study.settings.goals[i].signed_value(trial.objectives[i]));
  }
  Json one = {{"job_id", trial.job_id}, {"value", value.size() == 1 ? value[0] : value}};
  if (const auto interval = goal_interval(study, trial)) one["interval"] = {interval->first, interval->second};
  if (trial.budget > 0) one.update({{"trial", trial.trial}, {"budget", trial.budget}});
  if (study.space.has("devices")) one["devices"] = devices_of(study, trial.point);
  one.update({{"parameters", values}, {"figures", figures}});
  return one;
}

}  // namespace

Json json_of(const Study& study, const SearchResult& result, const std::vector<Trial>& best,
             const std::vector<std::filesystem::path>& files) {
  Json goals = Json::array(), directions = Json::array();
  for (const Goal& goal : study.settings.goals) {
    goals.push_back(goal.figure);
    directions.push_back(goal.minimizes ? "minimize" : "maximize");
  }
  const bool is_one = goals.size() == 1;
  Json json = {{"objective", is_one ? goals[0] : goals},
               {"direction", is_one ? directions[0] : directions},
               {"trials", result.count()},
               {"parts", result.trials.size()},
               {"resumed", result.resumed},
               {"by_others", result.by_others},
               {"failed", result.failed()},
               {"failures", counts_of_failures(result)},
               {"best", Json::array()},
               {"tied", Json::array()}};
  for (size_t i = 0; i < best.size(); ++i) {
    Json one = trial_json(study, best[i]);
    if (i < files.size()) one["config"] = files[i].string();
    json["best"].push_back(one);
  }
  for (const Trial& trial : tied_with_best(study, result)) json["tied"].push_back(trial_json(study, trial));
  return json;
}

std::string failure_of_all(const SearchResult& result) {
  if (result.trials.empty()) return "no trial was made";
  std::vector<Outcome> failures;
  for (const Trial& trial : result.trials) failures.push_back(trial.outcome);
  return fmt::format("all {} trials failed, {}; change the values of the parameters", failures.size(),
                     commonest_failure(failures));
}

}  // namespace terrace::search
