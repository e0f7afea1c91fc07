// terrace launch CONFIG: prints or submits the script that trains on a machine with Slurm, or the command of mpirun.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/build_facts.h"
#include "cli/build_kind.h"
#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/launched_layout.h"
#include "cli/ranges.h"
#include "cli/supervised_launch.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/config/outer_updates.h"
#include "terrace/launch/job.h"
#include "terrace/launch/job_script.h"
#include "terrace/launch/job_time.h"
#include "terrace/launch/submit.h"
#include "terrace/machine/launch_keys.h"
#include "terrace/machine/machine.h"
#include "terrace/models/planned_families.h"

namespace terrace::cli {
namespace {

// Options that are passed on to sbatch by their names; any other one by --sbatch-option.
struct PassedOn {
  const char *name, *meaning;
};
constexpr std::array passed_on = {
    PassedOn{"--qos", "Quality of service of the job"},
    PassedOn{"--mem", "Memory of each node, such as 480G; 0 for all of it"},
    PassedOn{"--exclude", "Nodes that the job must not have, such as node[3,7]"},
    PassedOn{"--nodelist", "Nodes that the job must have"},
    PassedOn{"--reservation", "Reservation in which the job runs"},
    PassedOn{"--switches",
             "Most switches, or groups of a dragonfly network, over which the job's nodes may lie, and how "
             "long it waits for such nodes, such as 1@12:00:00"},
    PassedOn{"--dependency", "Jobs after which this one may begin, such as afterok:123"},
    PassedOn{"--mail-type", "When Slurm writes mail, such as END,FAIL"},
    PassedOn{"--mail-user", "To whom Slurm writes mail"},
};

struct LaunchArguments {
  std::string config, machine, time, account, partition, program, sbcast, with = "slurm";
  std::vector<std::string> overrides, modules, limits, sbatch_options;
  std::array<std::string, passed_on.size()> passed = {};  // values of options of sbatch
  int64_t nodes = 1, spares = 0, signal_before = 0;
  bool submit = false, until_done = false, json = false, best = false;
  SupervisedLaunch supervised;
};

double time_of(const std::string& text) {
  const std::optional<double> seconds = launch::parse_job_time(text);
  if (seconds) return *seconds;
  throw UserError::of(
      "--time \"{}\" is no length of time; write 12:00:00 (hours, minutes, seconds), 2-00:00:00 (two "
      "days), 90 (minutes) or 1h30m",
      text);
}

std::string program_of(const LaunchArguments& arguments) {
  if (!arguments.program.empty() || !arguments.sbcast.empty()) return arguments.program;
  if (build_kind().missing_commands.empty()) return std::filesystem::read_symlink("/proc/self/exe");
  throw UserError("this build trains nothing; name the program that trains there with --program PATH");
}

// The maker of the GPUs for which the program has kernels, "" where there are none. An archive that is spread is taken
// for an installation of this program.
std::optional<std::string> kernels_for(const LaunchArguments& arguments) {
  if (!arguments.program.empty() || !build_kind().missing_commands.empty()) return std::nullopt;
  const auto has = [](std::string_view toolkit) {
    return build_facts().find(fmt::format("\n{}: none", toolkit)) == std::string_view::npos;
  };
  return has("CUDA") ? "NVIDIA" : has("HIP") ? "AMD" : "";
}

void check_archive(const LaunchArguments& arguments) {
  if (arguments.sbcast.empty()) return;
  if (arguments.with == "mpirun") throw UserError("--sbcast needs Slurm; leave it out, or leave out --with mpirun");
  if (!arguments.program.empty()) {
    throw UserError("--program and --sbcast both name the program that trains; leave one of them out");
  }
  if (std::filesystem::is_regular_file(arguments.sbcast)) return;
  throw UserError::of("--sbcast {} is no file; make it with tar czf {} -C FOLDER_ABOVE INSTALLATION", arguments.sbcast,
                      shell_word(arguments.sbcast));
}

std::vector<std::string> options_of_sbatch(const LaunchArguments& arguments) {
  std::vector<std::string> options;
  for (size_t i = 0; i < passed_on.size(); ++i) {
    if (!arguments.passed[i].empty()) options.push_back(fmt::format("{}={}", passed_on[i].name, arguments.passed[i]));
  }
  options.insert(options.end(), arguments.sbatch_options.begin(), arguments.sbatch_options.end());
  return options;
}

// Refuses options that mpirun cannot serve.
void check_mpirun(const LaunchArguments& arguments) {
  if (arguments.with != "mpirun") return;
  const auto refuse = [](const std::string& option) {
    throw UserError::of("{} needs Slurm; leave it out, or leave out --with mpirun", option);
  };
  if (arguments.submit) refuse("--submit");
  if (arguments.until_done) refuse("--until-done");
  if (!arguments.account.empty()) refuse("--account");
  if (!arguments.partition.empty()) refuse("--partition");
  if (!arguments.modules.empty()) refuse("--module");
  if (arguments.spares > 0 && !arguments.supervised.runs) {
    throw UserError(
        "--spares with --with mpirun needs --run and the names of the nodes (--hosts or --hostfile), since a "
        "printed line of mpirun replaces no node");
  }
  const std::vector<std::string> options = options_of_sbatch(arguments);
  if (!options.empty()) refuse(options.front().substr(0, options.front().find('=')));
  if (arguments.time.empty() && arguments.signal_before == 0) return;
  throw UserError::of("{} is for a job of Slurm; with mpirun use --set train.time_limit=\"1h30m\"",
                      arguments.time.empty() ? "--signal-before" : "--time");
}

// Refuses options that a run which trains now has no use for.
void check_run(const LaunchArguments& arguments) {
  if (!arguments.supervised.runs) return;
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw UserError::of("--run trains now, and {} {}; leave one of them out", option, why);
  };
  refuse(arguments.submit, "--submit", "gives a script to Slurm");
  refuse(arguments.until_done, "--until-done", "puts a job back into the queue");
  refuse(arguments.json, "--json", "prints a job");
  refuse(!arguments.sbcast.empty(), "--sbcast", "is for a script, which copies the archive");
  refuse(!arguments.time.empty(), "--time", "is the time of a job");
  refuse(arguments.signal_before > 0, "--signal-before", "is for a job");
  check_supervised(arguments.supervised, arguments.with == "mpirun");
}

// The command again, for the script; without --submit, so that it prints this script.
std::string command_of(const LaunchArguments& arguments) {
  std::string command = fmt::format("terrace launch {} --nodes {} --machine {}", shell_word(arguments.config),
                                    arguments.nodes, shell_word(arguments.machine));
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--time", arguments.time);
  if (arguments.signal_before > 0) add("--signal-before", std::to_string(arguments.signal_before));
  add("--account", arguments.account);
  add("--partition", arguments.partition);
  add("--program", arguments.program);
  add("--sbcast", arguments.sbcast);
  for (size_t i = 0; i < passed_on.size(); ++i) add(passed_on[i].name, arguments.passed[i]);
  for (const std::string& option : arguments.sbatch_options) command += " --sbatch-option=" + shell_word(option);
  for (const std::string& module : arguments.modules) add("--module", module);
  if (arguments.best) command += " --best";
  for (const std::string& limit : arguments.limits) add("--limit", limit);
  for (const std::string& text : arguments.overrides) add("--set", text);
  if (arguments.spares > 0) command += fmt::format(" --spares {}", arguments.spares);
  if (arguments.until_done) command += " --until-done";
  std::ranges::replace(command, '\n', ' ');
  return command;
}

launch::Job job_of(const LaunchArguments& arguments, int64_t nodes, bool best) {
  machine::Machine machine = machine::load(arguments.machine);
  machine::Launch& site = machine.launch;
  if (!arguments.account.empty()) site.account = arguments.account;
  if (!arguments.partition.empty()) site.partition = arguments.partition;
  if (!arguments.modules.empty()) site.modules = arguments.modules;
  const std::string problem = machine::modules_problem(arguments.modules);
  if (!problem.empty()) throw UserError::of("--module {}", problem);
  std::vector<std::string> overrides = arguments.overrides;
  if (best) {
    const int64_t devices = nodes * machine.devices_of("node");
    const std::vector<std::string> layout =
        fastest_layout(arguments.config, overrides, arguments.limits, machine, devices);
    overrides.insert(overrides.end(), layout.begin(), layout.end());
  }
  launch::JobRequest request{.config_file = arguments.config,
                             .overrides = overrides,
                             .config = config::load(arguments.config, models::planned_families(), overrides),
                             .machine = std::move(machine),
                             .nodes = nodes,
                             .spares = arguments.spares,
                             .machine_name = arguments.machine,
                             .time_seconds = arguments.time.empty() ? 0 : time_of(arguments.time),
                             .signal_seconds = static_cast<double>(arguments.signal_before),
                             .with_slurm = arguments.with == "slurm",
                             .until_done = arguments.until_done,
                             .program = program_of(arguments),
                             .archive = arguments.sbcast,
                             .kernels_for = kernels_for(arguments),
                             .sbatch_options = options_of_sbatch(arguments),
                             .working_folder = std::filesystem::current_path()};
  if (!request.config.idle.empty()) {
    log_warning("keys without effect in this run:\n  {}", fmt::join(request.config.idle, "\n  "));
  }
  if (const std::string advice = config::few_outer_updates(request.config); !advice.empty()) {
    log_warning("{}", advice);
  }
  return launch::make_job(std::move(request));
}

// The job on fewer nodes: the layout as it is where it fits there with fewer data-parallel ranks, and else the fastest
// one of what --set leaves open. On one node less, and so on, where there is none.
launch::Job smaller_job(const LaunchArguments& arguments, int64_t nodes) {
  std::string why;
  for (int64_t fewer = nodes; fewer > 0; --fewer) {
    for (const bool best : {false, true}) {
      if (arguments.best && !best) continue;
      try {
        launch::Job job = job_of(arguments, fewer, best);
        log_info("{}", launch::summary_of(job));
        return job;
      } catch (const UserError& error) {
        if (why.empty()) why = error.what();
      }
    }
  }
  throw UserError("no layout of this run fits on fewer nodes: " + why, ExitCode::infeasible);
}

void run_launch(const LaunchArguments& arguments) {
  const bool mpirun = arguments.with == "mpirun";
  check_mpirun(arguments);
  check_archive(arguments);
  check_run(arguments);
  const launch::Job job = job_of(arguments, arguments.nodes, arguments.best);
  log_info("{}", launch::summary_of(job));
  if (arguments.supervised.runs) {
    return run_supervised(arguments.supervised, job, [&](int64_t nodes) { return smaller_job(arguments, nodes); });
  }
  const std::string script = mpirun ? launch::mpirun_command(job) : launch::slurm_script(job, command_of(arguments));
  std::string number;
  if (arguments.submit) number = launch::submit(job, script);
  if (arguments.json) {
    Json json = launch::json_of(job);
    json[mpirun ? "command" : "script"] = script;
    json["job"] = number.empty() ? Json() : Json(number);
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else if (arguments.submit) {
    fmt::print("job {}: see terrace status {}\n", number, shell_word(job.run_folder().string()));
  } else {
    fmt::print("{}", script);
  }
}

}  // namespace

void add_launch_command(CLI::App& app) {
  auto arguments = std::make_shared<LaunchArguments>();
  CLI::App* command =
      app.add_subcommand("launch", "Print or submit the job that trains a configuration on a machine with Slurm");
  command->add_option("config", arguments->config, "Configuration file of the run")->required();
  command->add_option("--nodes", arguments->nodes, "Nodes, with a rank on each device")->required()->check(positive());
  command
      ->add_option("--machine", arguments->machine,
                   "A description of the machine: a built-in name, or a TOML file, whose [launch] says how jobs are "
                   "started there (docs/machines.md)")
      ->required();
  command->add_option("--time", arguments->time,
                      "Time limit, 12:00:00 or 1h30m; default: what the run is predicted to need, at most what the "
                      "machine allows");
  command->add_option("--set", arguments->overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command->add_option("--with", arguments->with, "slurm: a script for sbatch; mpirun: a command, without Slurm")
      ->check(CLI::IsMember({"slurm", "mpirun"}))
      ->capture_default_str();
  command->add_flag("--submit", arguments->submit, "Submit the script with sbatch instead of printing it");
  command->add_flag("--until-done", arguments->until_done,
                    "The job goes back into the queue and continues until train.steps are made");
  command->add_option("--account", arguments->account, "Account of the job, instead of the machine's");
  command->add_option("--partition", arguments->partition, "Partition of the job, instead of the machine's");
  for (size_t i = 0; i < passed_on.size(); ++i) {
    command->add_option(passed_on[i].name, arguments->passed[i], std::string(passed_on[i].meaning) + ", as of sbatch");
  }
  command
      ->add_option("--sbatch-option", arguments->sbatch_options,
                   "Another option of sbatch, such as --sbatch-option=--constraint=a100; may be given again")
      ->allow_extra_args(false);
  command
      ->add_option("--module", arguments->modules,
                   "A module that the job loads, instead of the machine's; may be given again, in the order of loading")
      ->allow_extra_args(false);
  CLI::Option* best = command->add_flag(
      "--best", arguments->best,
      "Launch the fastest layout on these devices, as terrace plan --best finds it; keys that --set gives are kept");
  command
      ->add_option("--limit", arguments->limits,
                   "With --best: a condition that the layout must hold, such as \"tensor <= 8\"; may be given again")
      ->allow_extra_args(false)
      ->needs(best);
  command
      ->add_option("--signal-before", arguments->signal_before,
                   "Seconds before the time limit at which the run is asked to save and stop; default: twice the "
                   "predicted step and save and a minute")
      ->check(positive());
  command
      ->add_option("--spares", arguments->spares,
                   "Nodes beside --nodes that take the places of nodes that are lost, while the run goes on")
      ->check(not_negative());
  add_supervised_options(*command, arguments->supervised);
  command->add_option("--program", arguments->program, "The terrace that trains; default: this one");
  command->add_option(
      "--sbcast", arguments->sbcast,
      "An archive of an installed terrace, which the job copies to a disk of each node and trains with");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "The configuration and the memory are checked as by plan, with its exit codes: 3 if the run does not fit.\n"
      "The script trains with --resume auto, so that submitting it again continues the run.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_launch(*arguments); }); });
}

}  // namespace terrace::cli
