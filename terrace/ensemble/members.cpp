// Makes configurations of seeds, and of the trials of a search.
#include "terrace/ensemble/members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/domain.h"
#include "terrace/models/planned_families.h"
#include "terrace/search/results_table.h"
#include "terrace/search/study/value.h"

namespace terrace::ensemble {
namespace {

constexpr std::string_view parameter_prefix = "p:";

struct RankedTrial {
  double objective;
  BestTrial trial;
};

// The number that a search gives the trial of a row: successive halving has a row for each budget of a trial.
std::string number_of_trial(const search::ResultsTable& table, size_t row) {
  for (const char* name : {"m:trial", "job_id"}) {
    if (std::ranges::find(table.columns(), name) != table.columns().end()) return table.cell(row, table.column(name));
  }
  return std::to_string(row);
}

// The columns of parameters, by their keys.
std::vector<std::pair<std::string, size_t>> parameters_of(const search::ResultsTable& table, const std::string& path) {
  std::vector<std::pair<std::string, size_t>> keys;
  std::string no_keys;
  for (size_t column = 0; column < table.columns().size(); ++column) {
    const std::string& name = table.columns()[column];
    if (!name.starts_with(parameter_prefix)) continue;
    const std::string key = name.substr(parameter_prefix.size());
    if (key.find('.') == std::string::npos) no_keys += (no_keys.empty() ? "" : ", ") + key;
    keys.emplace_back(key, column);
  }
  if (!no_keys.empty()) {
    throw UserError::of(
        "{}: the search's parameters {} are no keys of a configuration; give the files best_1.toml, "
        "best_2.toml .. of the search as configurations",
        path, no_keys);
  }
  return keys;
}

void add_member(const MembersRequest& request, const std::string& file, std::vector<std::string> settings,
                std::string origin, std::vector<Member>& members) {
  const std::string name = fmt::format("member_{}", members.size() + 1);
  std::vector<std::string> all = request.settings;
  all.insert(all.end(), settings.begin(), settings.end());
  settings = all;
  all.push_back("checkpoint.folder=" + config::toml_text((request.folder / name).string()));
  members.push_back({.name = name,
                     .origin = std::move(origin),
                     .config = config::load(file, models::planned_families(), all),
                     .settings = std::move(settings)});
}

void check(const MembersRequest& request) {
  std::vector<std::string> problems;
  if (request.configs.empty()) problems.push_back("no configuration is given");
  if (!request.results.empty() && request.configs.size() > 1) {
    problems.push_back(
        fmt::format("--results gives values for one configuration, and there are {}; leave --results "
                    "out, or give the configuration that the search varied",
                    request.configs.size()));
  }
  if (!request.results.empty() && request.best < 1) problems.push_back("--results needs --best, such as --best 5");
  if (request.results.empty() && request.best > 0) {
    problems.push_back("--best needs --results, the results.csv of a search");
  }
  if (!problems.empty()) throw UserError(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace

std::vector<BestTrial> best_trials(const std::filesystem::path& path, int64_t best) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "results.csv" : path;
  const search::ResultsTable table(file, read_text(file));
  const auto parameters = parameters_of(table, file.string());
  const auto& columns = table.columns();
  if (std::ranges::find(columns, "objective") == columns.end()) {
    throw UserError::of(
        "{} has several objectives, or none, so there is no best trial; give the files best_1.toml, "
        "best_2.toml .. of the search as configurations",
        file.string());
  }
  const size_t objective = table.column("objective");
  std::vector<RankedTrial> trials;
  for (size_t row = 0; row < table.size(); ++row) {
    const std::optional<double> value = search::parse_number(table.cell(row, objective));
    if (!value) continue;  // a failure
    RankedTrial ranked{.objective = *value, .trial = {.number = number_of_trial(table, row)}};
    for (const auto& [key, column] : parameters) {
      // A parameter that does not exist in this trial is empty.
      if (!table.cell(row, column).empty()) ranked.trial.settings.push_back(key + "=" + table.cell(row, column));
    }
    trials.push_back(std::move(ranked));
  }
  std::ranges::stable_sort(trials, std::ranges::greater{}, &RankedTrial::objective);
  // With successive halving a trial has a row for each of its budgets.
  std::vector<BestTrial> different;
  std::set<std::vector<std::string>> seen;
  for (RankedTrial& ranked : trials) {
    if (seen.insert(ranked.trial.settings).second) different.push_back(std::move(ranked.trial));
  }
  if (std::ssize(different) < best) {
    throw UserError::of("{} has {} that did not fail, and {} are asked for; give --best {}", file.string(),
                        counted(different.size(), "different trial"), best, std::max<size_t>(1, different.size()));
  }
  different.resize(static_cast<size_t>(best));
  return different;
}

std::vector<Member> members_of(const MembersRequest& request) {
  check(request);
  std::vector<Member> members;
  const auto add_seeds = [&](const std::string& file, const std::vector<std::string>& settings,
                             const std::string& origin) {
    if (request.seeds < 1) return add_member(request, file, settings, origin, members);
    std::vector<std::string> first = request.settings;
    first.insert(first.end(), settings.begin(), settings.end());
    const uint64_t seed = config::load(file, models::planned_families(), first).train.seed;
    for (uint64_t i = 0; i < static_cast<uint64_t>(request.seeds); ++i) {
      std::vector<std::string> own = settings;
      own.push_back(fmt::format("train.seed={}", seed + i));
      add_member(request, file, own, fmt::format("{}, seed {}", origin, seed + i), members);
    }
  };
  if (request.results.empty()) {
    for (const std::string& file : request.configs) add_seeds(file, {}, file);
  } else {
    int64_t place = 0;
    for (const BestTrial& trial : best_trials(request.results, request.best)) {
      add_seeds(request.configs.front(), trial.settings,
                fmt::format("trial {} of {} (place {} of {})", trial.number, request.results, ++place, request.best));
    }
  }
  if (members.size() < 2) {
    throw UserError::of(
        "an ensemble of one member has no spread; give --seeds 5, several configurations, or --results of "
        "a search with --best 5");
  }
  return members;
}

}  // namespace terrace::ensemble
