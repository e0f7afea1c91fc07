// Trains the narrowed run with the program's own training and notes what the ranks do.
#include "terrace/rehearse/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/prediction.h"
#include "terrace/rehearse/loss_check.h"
#include "terrace/run/run_training.h"
#include "terrace/schedule/description.h"
#include "terrace/verify/shrink.h"

namespace terrace::rehearse {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A stage whose computations take longer than the mean by this share is named.
constexpr double uneven_share = 0.1;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The losses and times that ranks note while they run.
struct Notes {
  Notes(const config::Config& config, int64_t data_ranks) : losses(config, data_ranks) {}

  LossLog losses;
  std::mutex mutex;
  Clock::time_point last_ready;  // when the last rank was ready for its first step
  Clock::time_point steps_ended;
  std::vector<double> step_seconds, step_losses;
};

// Notes the losses of every rank's steps, and the first rank's times.
class NotingHook : public train::Hook {
 public:
  explicit NotingHook(Notes& notes) : notes_(notes) {}

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    notes_.losses.note(trainer);
    if (trainer.rank() != 0) return;
    const std::lock_guard lock(notes_.mutex);
    notes_.step_seconds.push_back(report.metrics.step_seconds);
    notes_.step_losses.push_back(report.metrics.loss);
    notes_.steps_ended = Clock::now();
  }

 private:
  Notes& notes_;
};

void note_uneven_stages(const plan::PlannedRun& planned, const plan::Target& target, Rehearsal& rehearsal) {
  const plan::Prediction prediction = plan::predict(planned, target);
  if (!prediction.feasible()) rehearsal.findings.push_back("on the machine: " + prediction.reason);
  double sum = 0, most = 0;
  size_t longest = 0;
  for (size_t stage = 0; stage < prediction.stages.size(); ++stage) {
    const double seconds = prediction.stages[stage].computation.total();
    sum += seconds;
    if (seconds > most) longest = stage;
    most = std::max(most, seconds);
  }
  const double mean = sum / static_cast<double>(prediction.stages.size());
  if (most <= (1 + uneven_share) * mean) return;
  rehearsal.findings.push_back(fmt::format(
      "stage {} computes {:.0f}% longer than the mean of the {} stages, which wait for it: {} of {} each step", longest,
      100 * (most / mean - 1), prediction.stages.size(), format_seconds(most), format_seconds(mean)));
}

void note_checkpoint(const fs::path& folder, Rehearsal& rehearsal) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    ++rehearsal.checkpoint_files;
    rehearsal.checkpoint_bytes += static_cast<int64_t>(entry.file_size());
  }
}

std::string layout_text(const plan::PlannedRun& planned) {
  std::string text;
  for (const mesh::Axis& axis : planned.mesh.axes())
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text;
}

// The configuration with so many micro-batches on each rank.
config::Config with_micro_batches(config::Config config, const plan::Target& target, int64_t micro_batches) {
  if (micro_batches == 0) return config;
  const int64_t model_ranks = config.layout.tensor * config.layout.pipeline;
  const int64_t data_ranks = std::max<int64_t>(target.devices / model_ranks, 1);
  if (!config.family->settings.equal_shares) {
    throw UserError("--micro-batches is for models whose ranks take equal shares of a step; set train.global_batch");
  }
  const int64_t share = std::max<int64_t>(config.train.global_batch / data_ranks, 1);
  const int64_t micro_batch = config.train.micro_batch > 0 ? config.train.micro_batch : share;
  config.train.global_batch = micro_batches * data_ranks * micro_batch;
  config.train.micro_batch = micro_batch;
  config.train.ramp_start = config.train.ramp_increment = config.train.ramp_samples = 0;
  return config;
}

}  // namespace

double Rehearsal::rank_bytes() const {
  return static_cast<double>(most.resident_bytes - before.resident_bytes) / static_cast<double>(ranks);
}

Rehearsal rehearse(const config::Config& config, const plan::Target& target, const RehearsalOptions& options) {
  const plan::PlannedRun planned = plan::planned_run(with_micro_batches(config, target, options.micro_batches), target);
  const NarrowedRun run(planned, options.narrow);
  const int64_t data_ranks = planned.mesh.size("data");
  Rehearsal rehearsal{.ranks = target.devices,
                      .nodes = target.nodes(),
                      .stages = planned.placement.stages,
                      .micro_batches = schedule::pipeline_of(run.config(), data_ranks).micro_batches,
                      .parameters = schedule::elements(schedule::unit_table(run.config())),
                      .wide_parameters = schedule::elements(planned.table()),
                      .layout = layout_text(planned),
                      .changes = verify::key_changes(config, run.config())};
  note_uneven_stages(planned, target, rehearsal);
  std::optional<ClockedRun> clocked;
  if (options.timed) clocked.emplace(planned, target, options.slow_ranks);
  Notes notes(run.config(), data_ranks);
  const Clock::time_point began = Clock::now();
  const double processor_began = processor_seconds();
  rehearsal.before = usage_now();
  {
    const UsageWatch watch;
    run::RunOptions run_options{.ranks = target.devices};
    run_options.prepare = [&](train::Trainer& trainer) {
      trainer.add_hook(std::make_unique<NotingHook>(notes));
      if (clocked) clocked->attach(trainer);
      const std::lock_guard lock(notes.mutex);
      notes.last_ready = Clock::now();
    };
    if (clocked) run_options.decorate = [&](comm::World& world) { return clocked->decorate(world); };
    const run::RunResult result = run::run_training(run.config(), run_options);
    if (!result.finished) throw UserError("stopped " + result.stop_reason, ExitCode::stopped);
    rehearsal.most = watch.most();
    note_checkpoint(result.checkpoint, rehearsal);
  }
  rehearsal.processor_seconds = processor_seconds() - processor_began;
  rehearsal.start_seconds = seconds_between(began, notes.last_ready);
  rehearsal.end_seconds = seconds_between(notes.steps_ended, Clock::now());
  rehearsal.step_seconds = notes.step_seconds;
  rehearsal.losses = notes.step_losses;
  if (clocked) rehearsal.clocked = clocked->steps();
  // Copies that train by themselves have losses of their own.
  if (options.compares && run.config().layout.outer_every == 0) {
    const Activity activity("training the same model on one rank, and in double precision");
    rehearsal.loss_error = loss_error(run.config(), notes.losses);
  }
  return rehearsal;
}

}  // namespace terrace::rehearse
