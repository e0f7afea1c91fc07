// terrace train CONFIG: checks the configuration, measures the machine, trains.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/config/names.h"
#include "terrace/measure/matmul_rate.h"
#include "terrace/models/gpt/cost.h"
#include "terrace/nn/precision.h"
#include "terrace/train/hooks/hooks.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string resume;
};

// The checkpoint to continue from: named, or with "auto" the newest complete one of the run, if any.
std::unique_ptr<checkpoint::Reader> open_resumed(const std::string& resume, const std::string& folder) {
  const std::optional<fs::path> own = checkpoint::newest(folder);
  if (resume.empty()) {
    if (own) {
      throw UserError::of(
          "{} already holds a run up to {}; continue it with --resume auto, or name another checkpoint.folder", folder,
          own->filename().string());
    }
    return nullptr;
  }
  if (resume != "auto") {
    auto reader = std::make_unique<checkpoint::Reader>(checkpoint::resolve(resume));
    // Later checkpoints would be taken for this run's own when it is continued the next time.
    if (own && checkpoint::Reader(*own).step() > reader->step()) {
      throw UserError::of(
          "{} is older than {}, which is in the run's folder too; move the later checkpoints away, or name another "
          "checkpoint.folder with --set",
          resume, own->string());
    }
    return reader;
  }
  return own ? std::make_unique<checkpoint::Reader>(*own) : nullptr;
}

// The number of threads that the run before had, unless the configuration names one.
int64_t resumed_threads(const config::Config& config, const checkpoint::Reader* resumed) {
  if (config.train.threads > 0 || resumed == nullptr) return train::choose_threads(config.train.threads);
  return resumed->trainer().at("kernels").at("threads").get<int64_t>();
}

train::Peak measure_peak(const config::Config& config) {
  const at::ScalarType type = nn::scalar_type(config.train.precision);
  const auto rate = measure::matmul_rate(train::choose_device(config.train.device), type, 0.5);
  return {rate.flops_per_second, rate.name};
}

void write_run_facts(train::Trainer& trainer) {
  const config::Config& config = trainer.config();
  const Json facts = {{"parameters", models::gpt::parameter_count(config.model)},
                      {"precision", std::string(config::name_of(config.train.precision))},
                      {"global_batch", config.train.global_batch},
                      {"steps", config.train.steps},
                      {"peak_flops_per_second", trainer.peak().flops_per_second},
                      {"peak_name", trainer.peak().name},
                      {"unigram_loss", trainer.loader().unigram_loss()},
                      {"kernels", train::kernel_record(at::get_num_threads())}};
  write_text_atomically(fs::path(config.checkpoint.folder) / "run.json", facts.dump(2) + "\n");
}

void run_training(const Arguments& arguments) {
  const config::Config config = config::load(arguments.config, arguments.overrides);
  log_info("resolved configuration:\n{}", config::dump(config));
  if (const std::string& tokenizer = config.data.tokenizer; !tokenizer.empty() && !fs::exists(tokenizer)) {
    throw UserError::of(
        "data.tokenizer = \"{}\" does not exist; give the model that `terrace data prepare` was given or "
        "trained, or leave the key out",
        tokenizer);
  }
  const auto resumed = open_resumed(arguments.resume, config.checkpoint.folder);
  at::set_num_threads(static_cast<int>(resumed_threads(config, resumed.get())));
  train::Trainer trainer(config, measure_peak(config));
  log_info("{} parameters, {} threads, {}: {}", format_count(models::gpt::parameter_count(config.model)),
           at::get_num_threads(), trainer.peak().name, format_flops(trainer.peak().flops_per_second));
  if (resumed != nullptr) {
    trainer.resume(*resumed);
    log_info("continues from {}", resumed->path().string());
  } else if (!config.train.initial_weights.empty()) {
    trainer.load_weights(checkpoint::Reader(checkpoint::resolve(config.train.initial_weights)));
    log_info("weights of {}; everything else starts anew", config.train.initial_weights);
  }
  fs::create_directories(config.checkpoint.folder);
  write_run_facts(trainer);
  train::add_standard_hooks(trainer);
  trainer.run();
  fmt::print("{}\n", checkpoint::newest(config.checkpoint.folder).value().string());
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
      "Examples:\n  terrace train configs/tiny.toml\n  terrace train configs/tiny.toml --set train.steps=50 --resume "
      "auto");
  command->callback([arguments] { run_training(*arguments); });
}

}  // namespace terrace::cli
