// From a checked configuration to a finished run.
#include "terrace/train/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/file_lock.h"
#include "terrace/base/log.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/config/names.h"
#include "terrace/nn/precision.h"
#include "terrace/train/check_start.h"
#include "terrace/train/hooks/hooks.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/prepare_machine.h"

namespace terrace::train {
namespace {

namespace fs = std::filesystem;

void check_continues(const checkpoint::Reader& reader) {
  if (!reader.trainer().contains("imported_from")) return;
  throw UserError::of(
      "{} was imported and holds weights alone, so no run continues from it; start one with train.initial_weights in "
      "another checkpoint.folder",
      reader.path().string());
}

// The checkpoint to continue from, if any.
std::unique_ptr<checkpoint::Reader> open_resumed(const std::string& resume, const std::string& folder) {
  const std::optional<fs::path> own = checkpoint::newest(folder);
  if (resume.empty() && own) {
    throw UserError::of(
        "{} already holds a run up to {}; continue it with --resume auto, or name another checkpoint.folder", folder,
        own->filename().string());
  }
  if (resume.empty()) return nullptr;
  if (resume == "auto") {
    if (!own) log_info("{} holds no checkpoint yet: the run starts at step 1", folder);
    return own ? std::make_unique<checkpoint::Reader>(*own) : nullptr;
  }
  auto reader = std::make_unique<checkpoint::Reader>(checkpoint::resolve(resume));
  // Later checkpoints would be taken for this run's own when it is continued the next time.
  if (own && checkpoint::step_of(*own).value_or(0) > reader->step()) {
    throw UserError::of(
        "{} is older than {}, which is in the run's folder too; move the later checkpoints away and use --resume auto, "
        "or name another checkpoint.folder",
        resume, own->string());
  }
  return reader;
}

// The number of threads that the run before had, unless the configuration names one.
int64_t threads_of(const config::Config& config, const checkpoint::Reader* resumed) {
  if (config.train.threads > 0 || resumed == nullptr) return choose_threads(config.train.threads);
  const int64_t threads = resumed->trainer().at("kernels").at("threads").get<int64_t>();
  if (const int64_t cores = choose_threads(0); threads > cores) {
    log_warning(
        "the run had {} threads and goes on with as many, though this machine has {} cores; train.threads = {} is "
        "faster here, but does not continue to the last bit",
        threads, cores, cores);
  }
  return threads;
}

void check_profile(const config::Config& config, const RunOptions& options, int64_t steps_done) {
  const int64_t left = config.train.steps - steps_done;
  if (options.profile_steps == 0 || options.profile_steps <= left - profile_warm_up) return;
  throw UserError::of(
      "a profile of {} steps needs {} steps before them, and {} of train.steps = {} are left; profile at most {}, or "
      "raise train.steps",
      options.profile_steps, profile_warm_up, left, config.train.steps, std::max<int64_t>(0, left - profile_warm_up));
}

int64_t parameter_count(Trainer& trainer) {
  int64_t count = 0;
  for (const nn::Parameter* parameter : trainer.model().parameters()) count += parameter->value.numel();
  return count;
}

void write_run_facts(Trainer& trainer) {
  const config::Config& config = trainer.config();
  const bool held_out = trainer.loader().samples(data::Split::validation) > 0;
  const Json facts = {{"parameters", parameter_count(trainer)},
                      {"precision", std::string(config::name_of(config.train.precision))},
                      {"global_batch", config.train.global_batch},
                      {"steps", config.train.steps},
                      {"peak_flops_per_second", trainer.peak().flops_per_second},
                      {"peak_name", trainer.peak().name},
                      {"unigram_loss", held_out ? Json(trainer.loader().unigram_loss()) : Json()},
                      {"kernels", trainer.kernels()}};
  write_text_atomically(fs::path(config.checkpoint.folder) / "run.json", facts.dump(2) + "\n");
}

// Counters and weights before the first step.
void set_out(Trainer& trainer, const checkpoint::Reader* resumed) {
  const std::string& initial_weights = trainer.config().train.initial_weights;
  if (resumed != nullptr) {
    trainer.resume(*resumed);
    log_info("continues from {}", resumed->path().string());
  } else if (!initial_weights.empty()) {
    trainer.load_weights(checkpoint::Reader(checkpoint::resolve(initial_weights)));
    log_info("weights of {}; everything else starts anew", initial_weights);
  }
}

}  // namespace

RunResult run(const config::Config& config, const RunOptions& options) {
  const std::string& folder = config.checkpoint.folder;
  check_files(config);
  check_memory(config);
  fs::create_directories(folder);
  const FileLock lock(
      fs::path(folder) / ".run.lock",
      fmt::format("another process trains in {}; wait for its end, or name another checkpoint.folder", folder));
  const auto resumed = open_resumed(options.resume, folder);
  if (resumed) check_continues(*resumed);
  check_profile(config, options, resumed == nullptr ? 0 : resumed->step());
  prepare_machine(threads_of(config, resumed.get()));
  const Peak peak = options.measure_peak(choose_device(config.train.device), nn::scalar_type(config.train.precision));
  // A run goes on with the kernels that it began with.
  const ops::KernelChoice kernels =
      resumed ? recorded_choice(resumed->trainer().at("kernels")) : ops::KernelChoice{.products = peak.products};
  Trainer trainer(config, peak, kernels);
  log_info("{} parameters, {} threads, {}: {}", format_count(parameter_count(trainer)), at::get_num_threads(),
           peak.name, format_flops(peak.flops_per_second));
  set_out(trainer, resumed.get());
  write_run_facts(trainer);
  add_standard_hooks(trainer, options.began);
  if (options.profile_steps > 0) {
    trainer.add_hook(make_profile_hook(trainer, options.profile_steps, options.report_profile));
  }
  trainer.run();
  return {.checkpoint = checkpoint::newest(folder).value(),
          .step = trainer.steps_done(),
          .finished = trainer.finished(),
          .stop_reason = trainer.finished()              ? ""
                         : trainer.stop_reason().empty() ? "on request"
                                                         : trainer.stop_reason()};
}

}  // namespace terrace::train
