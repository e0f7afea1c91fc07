// Trains the narrowed run with the program's own training and notes what the ranks do.
#include "terrace/rehearse/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/checkpoint/folder.h"
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
// Twice as many ranks may take so many times as much to start: all that each does once, and what is counted once more
// for each level of a tree. Less than the least is noise.
constexpr double steep_growth = 3;
constexpr double least_start_seconds = 2, least_start_bytes = 256e6;
constexpr int64_t least_ranks_of_half = 16;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The losses and times that ranks note while they run.
struct Notes {
  Notes(const config::Config& config, int64_t data_ranks) : losses(config, data_ranks) {}

  void forget_after(int64_t step) {
    losses.forget_after(step);
    const size_t kept = std::min(step_losses.size(), static_cast<size_t>(step));
    step_losses.resize(kept);
    step_seconds.resize(kept);
  }

  LossLog losses;
  std::mutex mutex;
  int64_t ready = 0;  // ranks that are ready for their first step
  Clock::time_point last_ready;
  double processor_seconds_ready = 0;  // of the process when the last rank was ready
  int64_t bytes_ready = 0;
  int64_t begins_after = 0;       // the step after which the run begins
  Clock::time_point steps_ended;  // when the last step was over so far
  std::optional<Clock::time_point> first_step_ended;
  std::vector<double> step_seconds, step_losses;
};

// Notes the losses of every rank's steps, and the first rank's times.
class NotingHook : public train::Hook {
 public:
  explicit NotingHook(Notes& notes) : notes_(notes) {}

  void at_start(train::Trainer& trainer) override {
    const std::lock_guard lock(notes_.mutex);
    notes_.begins_after = trainer.steps_done();
    if (++notes_.ready < trainer.mesh().size()) return;
    // No step ends before all ranks are here, and those after the one that the run begins after are made again.
    notes_.forget_after(notes_.begins_after);
    notes_.last_ready = notes_.steps_ended = Clock::now();
    notes_.processor_seconds_ready = processor_seconds();
    notes_.bytes_ready = usage_now().resident_bytes;
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    notes_.losses.note(trainer);
    if (trainer.rank() != 0) return;
    const std::lock_guard lock(notes_.mutex);
    const Clock::time_point now = Clock::now();
    notes_.step_seconds.push_back(seconds_between(std::exchange(notes_.steps_ended, now), now));
    notes_.step_losses.push_back(report.metrics.loss);
    if (!notes_.first_step_ended) notes_.first_step_ended = now;
  }

 private:
  Notes& notes_;
};

// One start of all ranks and what it takes.
class Start {
 public:
  Start(const config::Config& config, int64_t ranks, int64_t data_ranks)
      : notes(config, data_ranks), config_(config), ranks_(ranks) {}

  // Returns whether the run came to its end, and where its last checkpoint is.
  run::RunResult run(bool only_starts, const std::string& resume, ClockedRun* clocked, Killer* killer) {
    notes.ready = 0;
    notes.first_step_ended.reset();
    give_back_free_memory();
    const Clock::time_point began = Clock::now();
    const double processor_began = processor_seconds();
    const int64_t bytes_began = usage_now().resident_bytes;
    run::RunOptions options{.ranks = ranks_, .resume = resume, .only_starts = only_starts};
    options.prepare = [&](train::Trainer& trainer) {
      if (clocked != nullptr) clocked->attach(trainer);
      if (killer != nullptr) trainer.add_hook(killer->hook());
      trainer.add_hook(std::make_unique<NotingHook>(notes));
    };
    if (clocked != nullptr) options.decorate = [&](comm::World& world) { return clocked->decorate(world); };
    run::RunResult result;
    try {
      result = run::run_training(config_, options);
    } catch (...) {
      note_cost(began, processor_began, bytes_began);
      throw;
    }
    note_cost(began, processor_began, bytes_began);
    if (!result.finished && !only_starts) throw UserError("stopped " + result.stop_reason, ExitCode::stopped);
    return result;
  }

  Notes notes;
  StartCost cost;  // of the first run

 private:
  void note_cost(Clock::time_point began, double processor_began, int64_t bytes_began) {
    if (cost.ranks > 0 || notes.ready < ranks_) return;
    cost = {.ranks = ranks_,
            .seconds = seconds_between(began, notes.last_ready),
            .processor_seconds = notes.processor_seconds_ready - processor_began,
            .bytes = notes.bytes_ready - bytes_began};
  }

  const config::Config& config_;
  const int64_t ranks_;
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
  const int64_t model_ranks = config.layout.ranks_of_samples();
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

// The start of half as many ranks, with half the batch; nothing where the layout does not allow that.
std::optional<StartCost> start_of_half(const config::Config& config, const plan::Target& target,
                                       const RehearsalOptions& options) {
  plan::Target half = target;
  half.devices = target.devices / 2;
  if (!options.compares_start || half.devices < least_ranks_of_half || target.devices % 2 != 0) return std::nullopt;
  try {
    config::Config halved = with_micro_batches(config, target, options.micro_batches);
    halved.train.global_batch /= 2;
    const plan::PlannedRun planned = plan::planned_run(halved, half);
    NarrowOptions narrow = options.narrow;
    narrow.steps = 1;
    narrow.folder += "_of_half";
    const NarrowedRun run(planned, narrow);
    Start start(run.config(), half.devices, planned.mesh.size("data"));
    const Activity activity("starting half as many ranks");
    start.run(/*only_starts=*/true, "", nullptr, nullptr);
    fs::remove_all(narrow.folder);
    return start.cost;
  } catch (const UserError&) {
    return std::nullopt;  // the layout or its groups do not divide them
  }
}

void note_start(Rehearsal& rehearsal) {
  if (!rehearsal.start_of_half) return;
  const StartCost& half = *rehearsal.start_of_half;
  const double times = rehearsal.start.processor_seconds / half.processor_seconds;
  const double bytes_times = static_cast<double>(rehearsal.start.bytes) / static_cast<double>(half.bytes);
  if (rehearsal.start.processor_seconds > least_start_seconds && times > steep_growth) {
    rehearsal.findings.push_back(
        fmt::format("the start takes {:.1f} times the processor time of half as many ranks: {} "
                    "and {}; it grows faster than the number of ranks",
                    times, format_seconds(rehearsal.start.processor_seconds), format_seconds(half.processor_seconds)));
  }
  if (rehearsal.start.bytes > least_start_bytes && half.bytes > 0 && bytes_times > steep_growth) {
    rehearsal.findings.push_back(fmt::format(
        "the start takes {:.1f} times the memory of half as many ranks: {} and {}; it grows faster than the number of "
        "ranks",
        bytes_times, format_bytes(static_cast<double>(rehearsal.start.bytes)),
        format_bytes(static_cast<double>(half.bytes))));
  }
}

// The losses of the same run without a death.
std::vector<StepLosses> undisturbed(const plan::PlannedRun& planned, NarrowOptions narrow) {
  narrow.folder += "_undisturbed";
  narrow.copies_in_memory = false;
  const NarrowedRun run(planned, narrow);
  Start start(run.config(), planned.mesh.size(), planned.mesh.size("data"));
  const Activity activity("training without the death, to compare");
  start.run(/*only_starts=*/false, "", nullptr, nullptr);
  fs::remove_all(narrow.folder);
  return start.notes.losses.steps();
}

// Trains until the rank is killed, takes its node's memory away and goes on with what is left.
run::RunResult run_with_death(Start& start, const config::Config& config, const KilledRank& killed,
                              Rehearsal& rehearsal) {
  Killer killer(killed);
  KillReport report{.killed = killed, .node = killed.rank / config.layout.ranks_per_node};
  try {
    start.run(/*only_starts=*/false, "", nullptr, &killer);
    throw UserError::of("--kill {}@{}: the run ended before that step", killed.rank, killed.step);
  } catch (const std::runtime_error& error) {
    if (!killer.killed_at()) throw;
    log_info("rank {} was killed: {}", killed.rank, error.what());
  }
  const Clock::time_point died = *killer.killed_at();
  report.noticed_seconds = seconds_between(died, Clock::now());
  lose_memory_of_node(config, report.node);
  const auto newest = checkpoint::newest(config.checkpoint.folder);
  const int64_t on_disk = newest ? checkpoint::step_of(*newest).value_or(0) : 0;
  const run::RunResult result = start.run(/*only_starts=*/false, "auto", nullptr, &killer);
  report.resumed_step = start.notes.begins_after;
  report.from_memory = report.resumed_step > on_disk;
  if (start.notes.first_step_ended) report.next_step_seconds = seconds_between(died, *start.notes.first_step_ended);
  rehearsal.killed = report;
  return result;
}

}  // namespace

double Rehearsal::rank_bytes() const {
  return static_cast<double>(most.resident_bytes - before.resident_bytes) / static_cast<double>(ranks);
}

Rehearsal rehearse(const config::Config& config, const plan::Target& target, const RehearsalOptions& options) {
  const plan::PlannedRun planned = plan::planned_run(with_micro_batches(config, target, options.micro_batches), target);
  NarrowOptions narrow = options.narrow;
  const bool only_starts = narrow.steps == 0;
  narrow.steps = std::max<int64_t>(narrow.steps, 1);
  narrow.copies_in_memory = options.killed.has_value();
  const NarrowedRun run(planned, narrow);
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
  if (options.timed) clocked.emplace(planned, target, options.slow);
  give_back_free_memory();
  rehearsal.before = usage_now();
  rehearsal.start_of_half = start_of_half(config, target, options);
  const double processor_began = processor_seconds();
  Start start(run.config(), target.devices, data_ranks);
  {
    const UsageWatch watch;
    const run::RunResult result = options.killed ? run_with_death(start, run.config(), *options.killed, rehearsal)
                                                 : start.run(only_starts, "", clocked ? &*clocked : nullptr, nullptr);
    rehearsal.most = watch.most();
    rehearsal.most.resident_bytes = std::max(rehearsal.most.resident_bytes, start.notes.bytes_ready);
    rehearsal.end_seconds = seconds_between(start.notes.steps_ended, Clock::now());
    if (!only_starts) note_checkpoint(result.checkpoint, rehearsal);
  }
  rehearsal.processor_seconds = processor_seconds() - processor_began;
  rehearsal.start = start.cost;
  note_start(rehearsal);
  if (only_starts) return rehearsal;
  rehearsal.step_seconds = start.notes.step_seconds;
  rehearsal.losses = start.notes.step_losses;
  rehearsal.slow = observe::read_slowness(narrow.folder);
  if (clocked) rehearsal.clocked = clocked->steps();
  if (options.killed) rehearsal.killed->same_bits = start.notes.losses.steps() == undisturbed(planned, narrow);
  // Copies that train by themselves have losses of their own.
  if (options.compares && run.config().layout.outer_every == 0) {
    const Activity activity("training the same model on one rank, and in double precision");
    rehearsal.loss_error = loss_error(run.config(), start.notes.losses);
  }
  return rehearsal;
}

}  // namespace terrace::rehearse
