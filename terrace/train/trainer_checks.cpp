// Checks in the steps of a trainer whether its ranks keep and compute what they should.
#include <fmt/format.h>

#include <utility>

#include "terrace/train/rewind.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

void Trainer::disturb(const std::vector<MemoryFault>& faults) {
  faults_ = MemoryFaults(faults, rank());
  own_.step.disturb(&faults_);
}

bool Trainer::checks_states_after(int64_t step) const {
  const int64_t every = config_.train.check_states_every;
  const auto is_due = [&](int64_t interval) { return interval > 0 && step % interval == 0; };
  // States that are saved or copied are checked, so that a run which loads the newest of them again loads good ones.
  return every > 0 && (is_due(every) || is_due(config_.checkpoint.every) || is_due(config_.checkpoint.memory_every) ||
                       step == config_.train.steps);
}

void Trainer::check_states() {
  states_checked_ = steps_done_;
  act_on_corruption(steps_done_, state_check_.after_update());
}

void Trainer::begin_checks(int64_t step) {
  if (config_.train.check_states_every > 0 && states_checked_ < 0) check_states();
  state_check_.begin_step();
  faults_.begin_step(step);
  faults_.flip_states(own_.cut.sharded, own_.optimizer);
}

void Trainer::cut_positions(data::MicroBatch& batch) const {
  const ops::ContextCut* const cut = own_.cut.context.cut();
  if (cut != nullptr) data::data_of_family(config_).cut_positions(batch, cut->places, cut->ranks->member());
}

models::Batch Trainer::first_batch(int64_t step, int64_t data_rank) const {
  // Every rank has at least one micro-batch, which may be empty.
  data::MicroBatch batch = std::move(data_->first_micro_batches(share_of(step, data_rank), 1, tensor_names_).at(0));
  cut_positions(batch);
  return models::to_device(models::on_host(std::move(batch)), device_);
}

void Trainer::begin_computation_check(const models::Pass& pass) {
  const int64_t every = config_.train.check_computation_every;
  if (every == 0 || pass.step % every != 0) return;
  computation_check_.begin_step(pass, [&](int64_t data_rank) { return first_batch(pass.step, data_rank); });
}

bool Trainer::passes_checks() {
  faults_.flip_summed_gradients(own_.cut.shards);
  corruption_ = state_check_.remembers() ? state_check_.before_update() : "";
  computed_wrong_ = computation_check_.watches() && !computation_check_.agrees();
  return corruption_.empty() && !computed_wrong_;
}

void Trainer::act_on_findings(const models::Pass& pass) {
  // The memory of a rank is to blame for what it computed from it.
  act_on_corruption(pass.step, corruption_);
  if (!computed_wrong_) return;
  act_on_corruption(pass.step, computation_check_.findings(
                                   pass, [&](int64_t data_rank) { return first_batch(pass.step, data_rank); }));
}

void Trainer::act_on_corruption(int64_t step, const std::string& found) {
  if (found.empty()) return;
  for (const auto& hook : hooks_) hook->finish_background_work();
  const std::string text = fmt::format("silent corruption in step {}: {}", step, found);
  if (config_.train.on_corruption == config::OnCorruption::stop) throw CorruptionError(text);
  throw Rewind{.cause = Rewind::Cause::corruption, .step = step, .began_after = began_after_, .reason = text};
}

}  // namespace terrace::train
