// terrace train CONFIG: checks the configuration, measures the machine and trains.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/machine_measurement.h"
#include "cli/training/node_check.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/printable.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/base/text/units.h"
#include "terrace/config/config.h"
#include "terrace/measure/faster_products.h"
#include "terrace/measure/matmul_rate.h"
#include "terrace/observe/summary.h"
#include "terrace/ops/products/products.h"
#include "terrace/run/check_run.h"
#include "terrace/run/run_training.h"
#include "terrace/train/agreement.h"
#include "terrace/train/report_request.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string resume;
  int64_t ranks = 1;
  int64_t profile_steps = 0;
  int64_t stop_after = 0;
  bool json = false;
  bool print_config = false;
  bool check = false;
  bool no_doctor = false;
};

// On a CPU without our own kernels for fp16, fp16 may be far slower than a user expects.
void warn_where_fp16_is_slow(const measure::MatmulRate& fp16) {
  if (ops::products_instructions(at::kCPU, at::kHalf, ops::Products::own) != std::string_view("torch")) return;
  const double ratio = measure::matmul_rate(at::kCPU, at::kFloat, 0.2).flops_per_second / fp16.flops_per_second;
  if (ratio < 2) return;
  log_warning(
      "products of fp16 take {:.0f} times as long as those of fp32 on this processor; use train.precision = "
      "\"bf16\" or \"fp32\"",
      ratio);
}

train::Peak measure_peak(const at::Device& device, at::ScalarType type, bool warns) {
  const measure::MatmulRate rate = measure::matmul_rate(device, type, 0.5);
  if (warns && type == at::kHalf && device.is_cpu()) warn_where_fp16_is_slow(rate);
  return {rate.flops_per_second, rate.name};
}

machine::Machine measure_own_machine(comm::World& world, const at::Device& device, at::ScalarType type) {
  return measure_machine(world, device, {.name = "this machine", .quick = true, .types = {type}});
}

Json json_of(const run::Profile& profile) {
  Json json = {{"first_step", profile.first_step}, {"last_step", profile.last_step}, {"trace", profile.trace.string()}};
  json.update(profile.operations.json());
  return json;
}

void print_profile(const run::Profile& profile) {
  fmt::print("steps {} to {}: {} a step on the clock\n{}trace {}, opens in Perfetto and chrome://tracing\n",
             profile.first_step, profile.last_step,
             format_seconds(profile.operations.seconds / static_cast<double>(profile.operations.steps)),
             profile.operations.text(), profile.trace.string());
  std::fflush(stdout);  // the run may continue for a long time
}

void print_ranks(const observe::ProfiledRanks& profiled) {
  fmt::print("step {} on {}:\n", profiled.step, counted(profiled.ranks.size(), "rank"));
  for (const std::string& sentence : observe::sentences_of(profiled)) fmt::print("  {}\n", printable(sentence));
  std::fflush(stdout);
}

// The command that starts this run again; "" under a launcher, whose own command line is not known here.
std::string resume_command(const TrainArguments& arguments, bool launched) {
  if (launched) return "";
  std::string command = "terrace train " + shell_word(arguments.config);
  for (const std::string& text : arguments.overrides) command += " --set " + shell_word(text);
  if (arguments.ranks > 1) command += fmt::format(" --ranks {}", arguments.ranks);
  if (arguments.json) command += " --json";
  return command;
}

// The result of the run, with the figures of terrace report.
Json closing_json(const config::Config& config, const run::RunResult& result) {
  Json json = {{"checkpoint", result.checkpoint.string()}, {"step", result.step}, {"finished", result.finished}};
  json["metrics"] = (std::filesystem::path(config.checkpoint.folder) / "metrics.jsonl").string();
  json.update(observe::summarize_run(config.checkpoint.folder));
  json.erase("files");
  return json;
}

bool names_folder(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with("checkpoint.folder"); });
}

run::RunOptions options_of(const TrainArguments& arguments, const LaunchedRanks& ranks) {
  return {.ranks = arguments.ranks,
          .world = ranks.world.get(),
          .resume = arguments.resume,
          .config_file = names_folder(arguments.overrides) ? "" : arguments.config,
          .resume_command = resume_command(arguments, ranks.launched()),
          .build_facts = fmt::format("commit: {}\n{}", commit(), build_facts()),
          .stop_after = arguments.stop_after,
          .profile_steps = arguments.profile_steps};
}

Json json_of(const plan::MemoryNeed& need) {
  return {{"ranks", need.ranks},
          {"states", need.states},
          {"copies", need.copies},
          {"activations", need.activations},
          {"total", need.all()}};
}

Json json_of(const run::RunCheck& check, const config::Config& config) {
  Json json = {{"ready", check.problems.empty()},
               {"errors", check.problems},
               {"exit_code", static_cast<int>(check.code)},
               {"ranks", check.ranks},
               {"device", check.device},
               {"parameters", check.largest.parameters},
               {"memory_bytes_together", json_of(check.need)},
               {"memory_bytes_largest_rank", json_of(check.largest)},
               {"memory_bytes_available", check.memory_bytes > 0 ? Json(check.memory_bytes) : Json()},
               {"samples_in_epoch", check.samples > 0 ? Json(check.samples) : Json()},
               {"steps", config.train.steps},
               {"steps_done", check.steps_done}};
  json["checkpoint"] = check.checkpoint.empty() ? Json() : Json(check.checkpoint.string());
  if (!check.initial_weights.empty()) json["initial_weights"] = check.initial_weights;
  return json;
}

void print_check(const run::RunCheck& check, const config::Config& config) {
  const auto parts = [](const plan::MemoryNeed& need) {
    return fmt::format("{}: {} for {}, {} for activations", format_bytes(need.all()),
                       format_bytes(need.states + need.copies), need.states_text(), format_bytes(need.activations));
  };
  const auto row = [](const std::string& label, const std::string& text) {
    fmt::print("{:<28}{}\n", label, printable(text));
  };
  if (check.largest.ranks > 0) {
    row("parameters", format_count(check.largest.parameters));
    row("ranks", fmt::format("{} ({})", check.ranks, check.device));
    row("memory of the largest rank", parts(check.largest));
    if (check.need.ranks > 1) row(fmt::format("memory of {} ranks together", check.need.ranks), parts(check.need));
    if (check.memory_bytes > 0) row("memory available", format_bytes(check.memory_bytes));
  }
  if (!check.problems.empty()) return;  // nothing starts
  const bool is_new = check.checkpoint.empty();
  row("starts", is_new ? fmt::format("at step 1 of {}", config.train.steps)
                       : fmt::format("from {}, after step {} of {}", check.checkpoint.string(), check.steps_done,
                                     config.train.steps));
  if (!check.initial_weights.empty()) row("initial weights", check.initial_weights);
  fmt::print("ready to train\n");
}

// Under a launcher only the first rank has the result, and the exit code of the problems.
void run_check(const TrainArguments& arguments, LaunchedRanks& ranks) {
  const bool is_reporting_rank = ranks.is_reporting_rank();
  run::RunCheck check;
  std::optional<train::Refusal> refusal;
  try {
    check = run::check_run(ranks.config, options_of(arguments, ranks));
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!is_reporting_rank) return;
  if (arguments.json) {
    fmt::print("{}\n", json_of(check, ranks.config).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    print_check(check, ranks.config);
  }
  if (check.problems.empty()) return;
  const std::string text =
      fmt::format("{}:\n  {}", counted(check.problems.size(), "problem"), fmt::join(check.problems, "\n  "));
  if (!arguments.json) throw UserError(text, check.code);
  fmt::print(stderr, "error: {}\n", printable(text));  // standard output has the object with the errors already
  throw UserError("", check.code);
}

void run_training(const TrainArguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  train::stop_on_signals();
  train::report_on_signal();
  LaunchedRanks ranks = arguments.check ? load_for_check_and_connect(arguments.config, arguments.overrides,
                                                                     arguments.ranks, arguments.resume)
                                        : load_and_connect(arguments.config, arguments.overrides, arguments.ranks);
  const config::Config& config = ranks.config;
  const bool is_reporting_rank = ranks.is_reporting_rank();
  if (arguments.print_config) {
    if (is_reporting_rank) fmt::print("{}", config::dump(config));
    return;
  }
  if (arguments.check) return run_check(arguments, ranks);
  if (!arguments.no_doctor) warn_of_node(ranks);
  Json json;
  const auto report = [&](const run::Profile& profile) {
    if (arguments.json) {
      json["profile"] = json_of(profile);
    } else {
      print_profile(profile);
    }
  };
  const auto measure = [is_reporting_rank](const at::Device& device, at::ScalarType type) {
    return measure_peak(device, type, is_reporting_rank);
  };
  run::RunResult result;
  std::optional<train::Refusal> refusal;
  try {
    run::RunOptions options = options_of(arguments, ranks);
    options.measure_peak = measure;
    options.choose_products = measure::faster_products;
    options.measure_machine = measure_own_machine;
    options.report_profile = report;
    options.report_ranks = [&](const observe::ProfiledRanks& profiled) {
      if (arguments.json) {
        json["ranks_profile"] = observe::json_of(profiled);
      } else {
        print_ranks(profiled);
      }
    };
    options.began = began;
    result = run::run_training(config, options);
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  // All ranks have left run(), so an error from here on leaves no other rank waiting.
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!is_reporting_rank) {
    if (!result.finished) throw UserError("", ExitCode::stopped);
    return;
  }
  if (arguments.json) json.update(closing_json(config, result));
  const std::string printed = (arguments.json ? json.dump() : result.checkpoint.string()) + "\n";
  if (result.finished) return fmt::print("{}", printed);
  // The run was stopped and saved, even if the terminal that was closed takes nothing any more.
  std::fputs(printed.c_str(), stdout);
  const std::string where = result.step < config.train.steps
                                ? fmt::format("after step {} of {}", result.step, config.train.steps)
                                : fmt::format("in the evaluation after step {}, the last one", result.step);
  throw UserError(fmt::format("stopped {} {}; continue with --resume auto", result.stop_reason, where),
                  ExitCode::stopped);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model; prints the path of the last checkpoint");
  command->add_option("config", arguments->config, "Configuration file (docs/configuration.md lists the keys)")
      ->required();
  command->add_option("--set", arguments->overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command->add_option("--resume", arguments->resume,
                      "Continue a run from the newest complete checkpoint of its folder (\"auto\") or from a path");
  command
      ->add_option("--ranks", arguments->ranks,
                   "Number of ranks, as threads of this process; under mpirun or srun each process is a rank")
      ->check(positive());
  command
      ->add_option("--profile", arguments->profile_steps,
                   fmt::format("Record the operations of N steps after the first {}, print how much time each takes, "
                               "and write a Chrome trace into the run's folder; with several ranks also who waits "
                               "for whom, and the critical path",
                               run::profile_warm_up))
      ->check(positive());
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "Stop after this step with a checkpoint and exit code 4; the schedules are those of all steps")
      ->check(positive());
  command->add_flag("--json", arguments->json,
                    "Print one JSON object at the end: losses, speed, memory and paths, or the errors");
  command->add_flag("--check", arguments->check,
                    "Make every check up to the first step, print the memory that is needed, and train nothing");
  command->add_flag("--print-config", arguments->print_config,
                    "Only print the configuration with every key that has an effect, and train nothing");
  command->add_flag("--no-doctor", arguments->no_doctor,
                    "Start without the quick checks of terrace doctor, which warn of settings of the node");
  command->footer(
      "SIGINT, SIGTERM, SIGUSR1, SIGHUP and train.time_limit end the run after the current step, or batch of an\n"
      "evaluation, with a checkpoint and exit code 4; a second SIGINT ends it at once. SIGUSR2 makes every rank write\n"
      "its last calls into flight_rank_NNN.json in the run's folder; the run continues.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_training(*arguments); }); });
}

}  // namespace terrace::cli
