// terrace train CONFIG: checks the configuration, measures the machine, trains.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "terrace/base/error.h"
#include "terrace/base/log.h"
#include "terrace/config/config.h"
#include "terrace/measure/matmul_rate.h"
#include "terrace/train/run.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string resume;
};

train::Peak measure_peak(const at::Device& device, at::ScalarType type) {
  const measure::MatmulRate rate = measure::matmul_rate(device, type, 0.5);
  return {rate.flops_per_second, rate.name};
}

void run_training(const Arguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  const config::Config config = config::load(arguments.config, arguments.overrides);
  log_info("resolved configuration:\n{}", config::dump(config));
  train::stop_on_signals();
  const train::RunResult result =
      train::run(config, {.resume = arguments.resume, .measure_peak = measure_peak, .began = began});
  fmt::print("{}\n", result.checkpoint.string());
  if (result.finished) return;
  throw UserError(fmt::format("stopped {} after step {} of {}; continue with --resume auto", result.stop_reason,
                              result.step, config.train.steps),
                  ExitCode::stopped);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model; prints the path of the last checkpoint");
  command->add_option("config", arguments->config, "Configuration file (docs/configuration.md lists the keys)")
      ->required();
  command->add_option("--set", arguments->overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command->add_option("--resume", arguments->resume,
                      "Continue a run: \"auto\" for the newest complete checkpoint of its folder, or a path");
  command->footer(
      "SIGINT, SIGTERM, SIGUSR1 and train.time_limit end the run after the current step with a checkpoint and exit\n"
      "code 4; a second SIGINT ends it at once.\n"
      "Examples:\n  terrace train configs/tiny.toml\n  terrace train configs/tiny.toml --set train.steps=300 --resume "
      "auto");
  command->callback([arguments] { run_training(*arguments); });
}

}  // namespace terrace::cli
