// terrace search SPACE: finds the best values of a configuration's keys by trials.
#include "terrace/search/search.h"

#include <fmt/format.h>
#include <signal.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/build_kind.h"
#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/ranges.h"
#include "cli/search_display.h"
#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/domain.h"
#include "terrace/search/enumeration.h"
#include "terrace/search/search_report.h"

namespace terrace::cli {
namespace {

struct Arguments {
  std::string space, method, time, from, output;
  std::optional<int64_t> trials, seed;
  int64_t best = 3;
  bool json = false, join = false;
};

double seconds_of(const std::string& text) {
  if (text.empty()) return 0;
  double seconds = 0;
  const std::string problem = config::Duration{}.read(toml::value<std::string>(text), seconds);
  if (!problem.empty()) throw UserError::of("--time {} {}; write 2h or 30m", text, problem);
  return seconds;
}

// The number of trials that the progress leads to; 0 where it is unknown.
uint64_t expected_trials(const search::Study& study) {
  const uint64_t points = study.space.grid_size().value_or(0);
  if (study.settings.tries_all()) return points;
  const auto trials = static_cast<uint64_t>(study.settings.trials > 0 ? study.settings.trials : search::default_trials);
  return points > 0 ? std::min(points, trials) : trials;
}

// This program, for training runs; "" if it cannot train.
std::string own_program() {
  if (!build_kind().missing_commands.empty()) return "";
  return std::filesystem::read_symlink("/proc/self/exe");
}

void run_search(const Arguments& arguments) {
  search::Study study = search::load_study(arguments.space);
  if (!arguments.method.empty()) study.settings.method = search::method_of(arguments.method);
  if (study.settings.method == search::Method::successive_halving && study.settings.halving.first == 0) {
    throw UserError::of("--method successive_halving needs a table [halving] in {}, such as first = 100",
                        arguments.space);
  }
  if (arguments.trials) study.settings.trials = *arguments.trials;
  if (arguments.seed) study.settings.seed = static_cast<uint64_t>(*arguments.seed);
  const std::filesystem::path folder =
      arguments.output.empty() ? std::filesystem::path("runs") / std::filesystem::path(arguments.space).stem()
                               : std::filesystem::path(arguments.output);
  const double time_limit = seconds_of(arguments.time);
  stop_on_signals();
  const std::string reason =
      search::choose_method(study, {.folder = folder, .from = arguments.from, .time_limit = time_limit});
  if (!reason.empty()) log_info("{}", reason);
  SearchDisplay display(study, expected_trials(study));
  const search::SearchResult result =
      search::search(study, {.folder = folder,
                             .from = arguments.from,
                             .time_limit = time_limit,
                             .program = own_program(),
                             .joins = arguments.join,
                             .predicting = [&](uint64_t done, uint64_t all) { display.show_predictions(done, all); },
                             .progress = [&](const search::SearchState& state) { display.update(state); },
                             .stops =
                                 [] {
                                   end_start();  // the search looks for a stop itself from here on
                                   return interrupted().load();
                                 }});
  display.clear();
  if (result.skipped > 0) {
    log_warning("{} of {} {} not in the space and left out", counted(result.skipped, "row"), arguments.from,
                plural(result.skipped, "is", "are"));
  }
  const std::vector<search::Trial> trials = result.best(static_cast<size_t>(arguments.best));
  const bool was_stopped = result.end == search::SearchEnd::stopped;
  const std::string stopped =
      fmt::format("stopped on request after {}{}; the same command{} continues the search",
                  counted(result.count(), "trial"), trials.empty() ? ", none of which gave a result" : "",
                  result.others > 0 && !arguments.join ? " with --join" : "");
  if (trials.empty() && was_stopped) throw UserError(stopped, ExitCode::stopped);
  if (trials.empty()) throw UserError(search::failure_of_all(result), ExitCode::infeasible);
  const std::vector<std::filesystem::path> files = search::write_best(study, trials, folder);
  search::write_ties(study, result, folder);
  if (arguments.json) {
    fmt::print("{}\n", search::json_of(study, result, trials, files).dump());
    if (was_stopped) throw UserError(stopped, ExitCode::stopped);
    return;
  }
  std::string names = "results.csv is";
  if (files.size() == 1) names = "best_1.toml and results.csv are";
  if (files.size() > 1) names = fmt::format("best_1.toml to best_{}.toml and results.csv are", files.size());
  fmt::print("{}{} in {}\n", search::text_of(study, result, trials), names, folder.string());
  if (was_stopped) throw UserError(stopped, ExitCode::stopped);
}

}  // namespace

void add_search_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("search", "Find the best values of a configuration's keys by trials");
  command->add_option("space", arguments->space, "File of parameters and constraints (docs/search.md)")->required();
  command->add_option("--trials", arguments->trials, "Trials in all, those of an interrupted search included")
      ->check(positive());
  command->add_option("--method", arguments->method, "How points are proposed")
      ->check(CLI::IsMember({"automatic", "bayesian", "random", "exhaustive", "successive_halving"}));
  command->add_option("--time", arguments->time, "Begin no trial after so long, such as 2h or 30m");
  command->add_option("--seed", arguments->seed, "Seed of all random choices")->check(not_negative());
  command->add_option("--from", arguments->from, "results.csv of another search, from which this one learns");
  command->add_option("--output", arguments->output,
                      "Folder of results.csv and of the best configurations; default: runs/NAME of the file");
  command->add_option("--best", arguments->best, "Number of configurations to write")
      ->check(positive())
      ->capture_default_str();
  command->add_flag("--join", arguments->join,
                    "Work together with other searches in the folder, also of other hosts, or begin the first of them");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "A search that was interrupted continues when it is started again. Ctrl-C "
      "prints the best so far and exits with 4. The exit code is 3 if every trial failed.");
  command->callback([arguments] { run_search(*arguments); });
}

}  // namespace terrace::cli
