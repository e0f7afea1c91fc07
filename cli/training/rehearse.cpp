// terrace rehearse CONFIG: trains a narrowed model on all ranks of a run, as threads of this process.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/json_errors.h"
#include "cli/planned_target.h"
#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/config/family.h"
#include "terrace/models/families.h"
#include "terrace/rehearse/rehearsal.h"

namespace terrace::cli {
namespace {

namespace fs = std::filesystem;

struct RehearseArguments {
  PlannedTarget target;
  rehearse::RehearsalOptions options;
  std::string output;
  std::vector<std::string> slow_ranks = {}, slow_links = {};
  std::string killed = {};
  bool json = false;
};

// The folder of a rehearsal that names none: removed at the end.
class RunFolder {
 public:
  explicit RunFolder(const std::string& given)
      : path_(given.empty() ? fs::temp_directory_path() / fmt::format("terrace_rehearsal_{}", getpid())
                            : fs::path(given)),
        is_kept_(!given.empty()) {}
  ~RunFolder() {
    std::error_code ignored;
    if (!is_kept_) fs::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool is_kept_;
};

std::map<int64_t, double> slow_ranks_of(const std::vector<std::string>& texts, int64_t ranks) {
  std::map<int64_t, double> slow;
  for (const std::string& text : texts) {
    int64_t rank = -1;
    double share = -1;
    char rest = 0;
    if (std::sscanf(text.c_str(), "%ld=%lf%c", &rank, &share, &rest) != 2 || rank < 0 || rank >= ranks || share <= 0) {
      throw UserError::of(
          "--slow-ranks {}: give RANK=SHARE with a rank from 0 to {} and a share above 0, such as {}=0.2", text,
          ranks - 1, ranks - 1);
    }
    slow[rank] = share;
  }
  return slow;
}

std::map<std::pair<int64_t, int64_t>, double> slow_links_of(const std::vector<std::string>& texts, int64_t ranks) {
  std::map<std::pair<int64_t, int64_t>, double> slow;
  for (const std::string& text : texts) {
    int64_t a = -1, b = -1;
    double share = -1;
    char rest = 0;
    const bool is_read = std::sscanf(text.c_str(), "%ld-%ld=%lf%c", &a, &b, &share, &rest) == 3;
    if (!is_read || a < 0 || b < 0 || std::max(a, b) >= ranks || a == b || share <= 0) {
      throw UserError::of(
          "--slow-links {}: give RANK-RANK=SHARE with two ranks from 0 to {} and a share above 0, such as 0-{}=1", text,
          ranks - 1, ranks - 1);
    }
    slow[std::minmax(a, b)] = share;
  }
  return slow;
}

std::optional<rehearse::KilledRank> killed_of(const std::string& text, int64_t ranks, int64_t steps) {
  if (text.empty()) return std::nullopt;
  rehearse::KilledRank killed{.rank = -1};
  char rest = 0;
  const bool is_read = std::sscanf(text.c_str(), "%ld@%ld%c", &killed.rank, &killed.step, &rest) == 2;
  if (!is_read || killed.rank < 0 || killed.rank >= ranks || killed.step < 1 || killed.step > steps) {
    throw UserError::of(
        "--kill {}: give RANK@STEP with a rank from 0 to {} and a step from 1 to {}, such as {}@{}; "
        "--steps sets the number of steps",
        text, ranks - 1, steps, ranks - 1, steps);
  }
  return killed;
}

// Refuses options that mean nothing together.
void check_options(const RehearseArguments& arguments) {
  const rehearse::RehearsalOptions& options = arguments.options;
  const bool slows = !arguments.slow_ranks.empty() || !arguments.slow_links.empty();
  if (slows && !options.timed) throw UserError("--slow-ranks and --slow-links slow clocks down: add --timed");
  if (options.slow.after > 0 && !slows) {
    throw UserError(
        "--slow-after says when the ranks of --slow-ranks and the links of --slow-links become slow: add one "
        "of them");
  }
  if (options.timed && !arguments.killed.empty()) {
    throw UserError("--kill goes without --timed: a run that begins again has no clock from before");
  }
  if (options.narrow.steps == 0 && (options.timed || options.narrow.evaluates || !arguments.killed.empty())) {
    throw UserError(
        "with --steps 0 the ranks only start: give --timed, --evaluate and --kill steps, such as --steps 3");
  }
}

void rehearse_run(RehearseArguments& arguments) {
  check_options(arguments);
  stop_on_signals();
  config::Config config = arguments.target.load_config();
  config.family = config::find_family(models::families(), config.family->name);  // with the parts that train
  const plan::Target target = arguments.target.load_target();
  const RunFolder folder(arguments.output);
  arguments.options.narrow.folder = folder.path();
  arguments.options.slow.ranks = slow_ranks_of(arguments.slow_ranks, target.devices);
  arguments.options.slow.links = slow_links_of(arguments.slow_links, target.devices);
  arguments.options.killed = killed_of(arguments.killed, target.devices, arguments.options.narrow.steps);
  const rehearse::Rehearsal rehearsal = rehearse::rehearse(config, target, arguments.options);
  fmt::print("{}", arguments.json ? rehearse::json_of(rehearsal).dump() + "\n" : rehearse::text_of(rehearsal));
  if (rehearsal.holds()) return;
  if (rehearsal.killed && !rehearsal.killed->same_bits) {
    throw UserError("after the death of a rank the run has other losses than without it", ExitCode::failure);
  }
  throw UserError(
      "the losses of all ranks differ from those of one rank by more than rounding explains; terrace verify "
      "finds the first operation that differs",
      ExitCode::failure);
}

}  // namespace

void add_rehearse_command(CLI::App& app) {
  auto arguments = std::make_shared<RehearseArguments>();
  CLI::App* command = app.add_subcommand(
      "rehearse",
      "Run all ranks of a training here, as threads and with a narrowed model, before the machine is there");
  arguments->target.add_to(*command);
  rehearse::NarrowOptions& narrow = arguments->options.narrow;
  command
      ->add_option("--width", narrow.width,
                   "Width of the narrowed model (if not given, the least that the layout allows)")
      ->check(positive());
  command->add_option("--steps", narrow.steps, "Steps to train; 0: the ranks only start")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--micro-batches", arguments->options.micro_batches,
                   "Micro-batches of each rank in a step (if not given, those of the configuration)")
      ->check(positive());
  command->add_flag("--timed", arguments->options.timed,
                    "Give each rank a clock that counts the predicted seconds of its instructions and messages");
  command
      ->add_option("--slow-ranks", arguments->slow_ranks,
                   "With --timed: RANK=SHARE, such as 17=0.2, for ranks that compute so much longer")
      ->delimiter(',');
  command
      ->add_option("--slow-links", arguments->slow_links,
                   "With --timed: RANK-RANK=SHARE, such as 0-8=1, for links that take so much longer")
      ->delimiter(',');
  command
      ->add_option("--slow-after", arguments->options.slow.after,
                   "Steps before these ranks and links become slow (0: they are from the beginning)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--kill", arguments->killed,
                      "RANK@STEP: the rank and the memory of its node die in the step, and the run goes on");
  command->add_flag("--evaluate", narrow.evaluates, "Evaluate on held-out samples after each step");
  command->add_option("--output", arguments->output,
                      "Folder for the run, which is kept with its metrics, checkpoint and last calls");
  command->add_flag("!--no-one-rank", arguments->options.compares,
                    "Do not train the same model on one rank to compare losses");
  command->add_flag("!--no-half", arguments->options.compares_start,
                    "Do not start half as many ranks to compare what a start takes");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "The exit code is 0 if the run ends and its losses are those of one rank, 1 if they are not, and 5 if\n"
      "the ranks wait for each other for ever or make calls that do not fit together.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { rehearse_run(*arguments); }); });
}

}  // namespace terrace::cli
