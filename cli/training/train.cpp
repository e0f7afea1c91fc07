// terrace train CONFIG: checks the configuration, measures the machine and trains.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/machine_measurement.h"
#include "terrace/base/error.h"
#include "terrace/base/json.h"
#include "terrace/base/log.h"
#include "terrace/base/shell_word.h"
#include "terrace/base/units.h"
#include "terrace/config/config.h"
#include "terrace/measure/faster_products.h"
#include "terrace/measure/matmul_rate.h"
#include "terrace/ops/products.h"
#include "terrace/train/agreement.h"
#include "terrace/train/report_request.h"
#include "terrace/train/run.h"
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
  const measure::MatmulRate rate = measure::matmul_rate(device, type, 1.0);
  if (warns && type == at::kHalf && device.is_cpu()) warn_where_fp16_is_slow(rate);
  return {rate.flops_per_second, rate.name};
}

machine::Machine measure_own_machine(comm::World& world, const at::Device& device, at::ScalarType type) {
  return measure_machine(world, device, {.name = "this machine", .quick = true, .types = {type}});
}

Json json_of(const train::Profile& profile) {
  Json json = {{"first_step", profile.first_step}, {"last_step", profile.last_step}, {"trace", profile.trace.string()}};
  json.update(profile.operations.json());
  return json;
}

void print_profile(const train::Profile& profile) {
  fmt::print("steps {} to {}: {} a step on the clock\n{}trace {}, opens in Perfetto and chrome://tracing\n",
             profile.first_step, profile.last_step,
             format_seconds(profile.operations.seconds / static_cast<double>(profile.operations.steps)),
             profile.operations.text(), profile.trace.string());
  std::fflush(stdout);  // the run may continue for a long time
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

bool names_folder(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with("checkpoint.folder"); });
}

void run_training(const TrainArguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  train::stop_on_signals();
  train::report_on_signal();
  LaunchedRanks ranks = load_and_connect(arguments.config, arguments.overrides, arguments.ranks);
  const config::Config& config = ranks.config;
  const bool is_reporting_rank = ranks.is_reporting_rank();
  log_info("resolved configuration:\n{}", config::dump(config));
  Json json;
  const auto report = [&](const train::Profile& profile) {
    if (arguments.json) {
      json["profile"] = json_of(profile);
    } else {
      print_profile(profile);
    }
  };
  const auto measure = [is_reporting_rank](const at::Device& device, at::ScalarType type) {
    return measure_peak(device, type, is_reporting_rank);
  };
  train::RunResult result;
  std::optional<train::Refusal> refusal;
  try {
    result = train::run(config, {.ranks = arguments.ranks,
                                 .world = ranks.world.get(),
                                 .resume = arguments.resume,
                                 .config_file = names_folder(arguments.overrides) ? "" : arguments.config,
                                 .resume_command = resume_command(arguments, ranks.launched()),
                                 .measure_peak = measure,
                                 .choose_products = measure::faster_products,
                                 .measure_machine = measure_own_machine,
                                 .stop_after = arguments.stop_after,
                                 .profile_steps = arguments.profile_steps,
                                 .report_profile = report,
                                 .began = began});
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
  if (arguments.json) {
    json.update({{"checkpoint", result.checkpoint.string()}, {"step", result.step}, {"finished", result.finished}});
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}\n", result.checkpoint.string());
  }
  if (result.finished) return;
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
                               "and write a Chrome trace into the run's folder",
                               train::profile_warm_up))
      ->check(positive());
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "Stop after this step with a checkpoint and exit code 4; the schedules are those of all steps")
      ->check(positive());
  command->add_flag("--json", arguments->json, "Print one JSON object at the end");
  command->footer(
      "SIGINT, SIGTERM, SIGUSR1 and train.time_limit end the run after the current step, or batch of an evaluation,\n"
      "with a checkpoint and exit code 4; a second SIGINT ends it at once. SIGUSR2 makes every rank write its last\n"
      "calls into flight_rank_NNN.json in the run's folder; the run continues.");
  command->callback([arguments] { run_training(*arguments); });
}

}  // namespace terrace::cli
