// Works out what a run does and what interrupts it.
#include "terrace/plan/time/run_cost.h"

#include <algorithm>

#include "terrace/data/order/batch_ramp.h"
#include "terrace/machine/time_limit.h"
#include "terrace/plan/time/evaluation_time.h"

namespace terrace::plan {
namespace {

constexpr double hour = 3600;

// The first step after which so many samples were drawn.
int64_t steps_for(double samples, const data::BatchRamp& ramp) {
  const auto too_few = [&](int64_t steps) { return static_cast<double>(ramp.samples_before(steps + 1)) < samples; };
  int64_t below = 0, enough = 1;
  while (too_few(enough)) enough *= 2;
  while (enough - below > 1) {
    const int64_t middle = below + (enough - below) / 2;
    (too_few(middle) ? below : enough) = middle;
  }
  return enough;
}

// Evaluations after every so many steps and after the last one. Of all held-out data the size is not known.
void count_evaluations(RunCost& cost, const config::Config& config, const Prediction& prediction,
                       const Target& target) {
  const config::TrainConfig& train = config.train;
  if (train.evaluate_every == 0 || train.evaluate_batches == 0) return;
  cost.evaluations = cost.steps / train.evaluate_every + (cost.steps % train.evaluate_every == 0 ? 0 : 1);
  const int64_t rounds = train.evaluate_batches * prediction.micro_batches;
  if (cost.evaluation_round_seconds == 0) cost.evaluation_round_seconds = evaluation_round_seconds(config, target);
  cost.evaluation_seconds = static_cast<double>(rounds) * cost.evaluation_round_seconds;
  cost.course.evaluating = static_cast<double>(cost.evaluations) * cost.evaluation_seconds;
}

// The checkpoint of the last step is the one at the end. A checkpoint that is due while the one before is being written
// waits for it.
void count_checkpoints(RunCost& cost, const config::Config& config, const Prediction& prediction) {
  RunCourse& course = cost.course;
  course.save = course.read = cost.checkpoint.seconds;
  const int64_t every = config.checkpoint.every;
  if (every == 0) return;
  cost.checkpoint_interval_seconds = static_cast<double>(every) * prediction.step_seconds;
  course.saves = (cost.steps - 1) / every;
  course.stall = cost.checkpoint.seconds;
  if (!config.checkpoint.background) return;
  const double waiting = std::max(0.0, cost.checkpoint.seconds - cost.checkpoint_interval_seconds);
  course.stall = cost.checkpoint.copy_seconds + waiting;
  course.unwritten = cost.checkpoint.seconds;
}

// A copy is whole when the link of a device to other nodes has moved its states once; a checkpoint is made of it as any
// other is written. Both levels have Young's interval: the copies for all failures, and the checkpoints for those that
// the copies do not mend.
void count_copies(RunCost& cost, const config::Config& config, const Prediction& prediction, const Target& target) {
  const int64_t every = config.checkpoint.memory_every;
  if (every == 0) return;
  RunCourse& course = cost.course;
  cost.copy_interval_seconds = static_cast<double>(every) * prediction.step_seconds;
  course.copies = (cost.steps - 1) / every;
  course.copy_stall = cost.checkpoint.copy_seconds;
  const double link = target.machine.tiers.empty() ? 0 : target.machine.tiers.back().link_bandwidth;
  const double bytes_of_rank = cost.checkpoint.bytes / static_cast<double>(target.devices);
  course.copy_unwritten = course.copy_stall + (link > 0 ? bytes_of_rank / link : 0);
  course.recovery = cost.checkpoint.seconds;
  if (course.between_failures == RunCourse::never) return;
  const double exposed = course.start + course.read + course.recovery + cost.copy_interval_seconds;
  course.not_mended = share_not_mended(cost.nodes, exposed, course.between_failures * static_cast<double>(cost.nodes));
  if (!course.falls_back_to_copies()) return;
  cost.best_copy_interval_seconds = best_interval(course.copy_stall, course.between_failures);
  cost.best_checkpoint_interval_seconds =
      best_interval(cost.checkpoint.seconds, course.between_failures / course.not_mended);
}

void count_interruptions(RunCost& cost, const config::Config& config, const Prediction& prediction,
                         const Target& target) {
  const machine::Machine& machine = target.machine;
  RunCourse& course = cost.course;
  course.start = machine.start.seconds_of(target.devices);
  course.queue = machine.start.queue_seconds.value_or(0);
  if (target.devices > 1) course.detection = config.layout.timeout;
  if (machine.node_failure_hours > 0) {
    course.between_failures = hour * machine.node_failure_hours / static_cast<double>(cost.nodes);
  }
  cost.job_limit_seconds = machine::longest_job_seconds(machine.launch, cost.nodes);
  if (cost.job_limit_seconds > 0) {
    const double signal = signal_seconds(prediction.step_seconds, course.save);
    course.job = cost.job_limit_seconds - course.start - course.read - signal;
  }
  if (config.train.time_limit > 0) {
    // Each start makes a step at least.
    const double left = config.train.time_limit - course.start - course.read;
    course.job = std::min(course.job, std::max(prediction.step_seconds, left));
  }
}

}  // namespace

RunCost run_cost(const config::Config& config, const Prediction& prediction, const Target& target,
                 std::optional<double> items, double round_seconds) {
  const data::BatchRamp ramp(config.train, config.phases);
  const auto items_of_sample = static_cast<double>(prediction.items) / static_cast<double>(prediction.samples);
  RunCost cost{.steps = items ? steps_for(*items / items_of_sample, ramp) : config.train.steps};
  cost.items = items_of_sample * static_cast<double>(ramp.samples_before(cost.steps + 1));
  cost.nodes = target.nodes();
  cost.evaluation_round_seconds = round_seconds;
  cost.checkpoint = checkpoint_estimate(prediction, target);
  cost.course.computing = cost.items / prediction.items_per_second();
  count_evaluations(cost, config, prediction, target);
  count_checkpoints(cost, config, prediction);
  count_interruptions(cost, config, prediction, target);
  count_copies(cost, config, prediction, target);
  cost.calendar = run_calendar(cost.course);
  if (target.machine.node_failure_hours > 0) cost.restarts = cost.calendar.failures;
  const double device_seconds = cost.calendar.occupied() * static_cast<double>(target.devices);
  cost.device_hours = device_seconds / hour;
  const double power = target.machine.device.power_watts;
  if (power > 0) cost.energy_joules = device_seconds * power;
  return cost;
}

}  // namespace terrace::plan
