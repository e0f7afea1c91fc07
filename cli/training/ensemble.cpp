// terrace ensemble CONFIG..: trains several models side by side, which predict together.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/base/system/launch_command.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/ensemble/ensemble_run.h"
#include "terrace/ensemble/members.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"

namespace terrace::cli {
namespace {

struct EnsembleArguments {
  ensemble::MembersRequest members;
  std::string output, machine = "laptop", software = "terrace", launcher = "auto";
  int64_t ranks = 0;
  bool json = false;
};

int64_t steps_done(const std::vector<ensemble::MemberProgress>& members) {
  int64_t steps = 0;
  for (const ensemble::MemberProgress& member : members) steps += member.step;
  return steps;
}

std::string shown(const std::vector<ensemble::Member>& members, const std::vector<ensemble::MemberProgress>& progress) {
  std::string text;
  for (size_t i = 0; i < members.size(); ++i) {
    if (progress[i].state != ensemble::MemberState::running) continue;
    text +=
        fmt::format("{}{} at {} of {}", text.empty() ? "" : ", ", members[i].name, progress[i].step, progress[i].steps);
  }
  return text;
}

std::string table_of(const std::vector<ensemble::Member>& members, const ensemble::EnsembleResult& result) {
  std::string text;
  for (size_t i = 0; i < members.size(); ++i) {
    const ensemble::MemberProgress& own = result.members[i];
    text += fmt::format("{:<10}  {:<8}  step {} of {}  {}  {}\n", members[i].name, ensemble::word_of(own.state),
                        own.step, own.steps, members[i].config.checkpoint.folder, members[i].origin);
  }
  return text;
}

std::string failures_of(const std::vector<ensemble::Member>& members, const ensemble::EnsembleResult& result) {
  std::string text;
  for (size_t i = 0; i < members.size(); ++i) {
    const ensemble::MemberProgress& own = result.members[i];
    if (own.state != ensemble::MemberState::failed) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : "\n", members[i].name, own.reason);
  }
  return text;
}

void run_ensemble(EnsembleArguments& arguments) {
  const std::filesystem::path first = arguments.members.configs.front();
  arguments.members.folder = arguments.output.empty()
                                 ? std::filesystem::path("runs") / (first.stem().string() + "_ensemble")
                                 : std::filesystem::path(arguments.output);
  const std::vector<ensemble::Member> members = ensemble::members_of(arguments.members);
  ensemble::EnsembleOptions options{
      .folder = arguments.members.folder,
      .program = std::filesystem::read_symlink("/proc/self/exe"),
      .ranks = arguments.ranks,
      .launcher = chosen_launcher(arguments.launcher),
      .target = {.machine = machine::load(arguments.machine), .software = machine::load_software(arguments.software)}};
  int64_t steps = 0;
  for (const ensemble::Member& member : members) steps += member.config.train.steps;
  stop_on_signals();
  std::unique_ptr<Progress> progress;
  options.progress = [&](const std::vector<ensemble::MemberProgress>& now) {
    const auto done = static_cast<uint64_t>(steps_done(now));
    if (progress == nullptr) progress = std::make_unique<Progress>("ensemble", static_cast<uint64_t>(steps), done);
    progress->update(done, shown(members, now));
  };
  options.stops = [] {
    end_start();  // the members are stopped in order from here on
    return interrupted().load();
  };
  const ensemble::EnsembleResult result = ensemble::train_ensemble(members, options);
  if (progress != nullptr) progress->clear();
  if (arguments.json) {
    fmt::print("{}\n", ensemble::json_of(members, result).dump());
  } else {
    fmt::print("{}", table_of(members, result));
  }
  if (result.stopped) throw UserError("stopped on request; the same command goes on", ExitCode::stopped);
  const std::string failures = failures_of(members, result);
  if (!failures.empty()) throw UserError(failures + "\nthe same command tries them again", ExitCode::failure);
}

}  // namespace

void add_ensemble_command(CLI::App& app) {
  auto arguments = std::make_shared<EnsembleArguments>();
  CLI::App* command = app.add_subcommand("ensemble", "Train several models side by side, which predict together");
  command->add_option("configs", arguments->members.configs, "One or more configurations")->required();
  command
      ->add_option("--seeds", arguments->members.seeds,
                   "Train each configuration with so many seeds, from train.seed on")
      ->check(positive());
  command->add_option("--results", arguments->members.results,
                      "results.csv of a search, or its folder, whose best trials give members");
  command->add_option("--best", arguments->members.best, "So many of its trials")->check(positive());
  command->add_option("--set", arguments->members.settings, "section.key=value, of all members; may be repeated");
  command->add_option("--output", arguments->output, "Folder of the members; default: runs/NAME_ensemble");
  command
      ->add_option("--ranks", arguments->ranks,
                   "Ranks that all members together use; default: one for each member, at most the cores")
      ->check(positive());
  command->add_option("--launcher", arguments->launcher, "How a member's ranks are started")
      ->check(CLI::IsMember({"auto", "threads", "mpirun", "srun"}))
      ->capture_default_str();
  command->add_option("--machine", arguments->machine, "Machine on which the members' times are predicted")
      ->capture_default_str();
  command->add_option("--software", arguments->software, "Software of the prediction")->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "Members that are done are left alone, and others continue from their newest checkpoint. Ctrl-C lets all "
      "write a checkpoint and exits with 4.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_ensemble(*arguments); }); });
}

}  // namespace terrace::cli
