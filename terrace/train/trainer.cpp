// Makes the steps of a run: takes the data, executes the instruction list, judges the gradients and reports.
#include "terrace/train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/models/families.h"
#include "terrace/nn/precision.h"
#include "terrace/observe/trace.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/optim/learning_rate.h"
#include "terrace/parallel/states.h"
#include "terrace/profile/record.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/schedule/recompute.h"
#include "terrace/train/agreement.h"
#include "terrace/train/data_stage.h"
#include "terrace/train/device.h"
#include "terrace/train/stop_request.h"

namespace terrace::train {

namespace {

optim::LossScale first_loss_scale(const config::TrainConfig& config) {
  if (config.precision != config::Precision::fp16) return {};
  return {.scale = config.initial_loss_scale, .window = config.loss_scale_window};
}

// The tensors of a batch that the units of the stage read.
data::TensorNames names_read(const schedule::UnitTable& table, const parallel::Stage& stage) {
  data::TensorNames names;
  for (const std::vector<int64_t>& segments : stage.own().chunks) {
    for (const int64_t number : segments) {
      const schedule::NumberRange& units = stage.segment(number).units;
      for (int64_t unit = units.begin; unit < units.end; ++unit) {
        const std::vector<std::string>& read = table[static_cast<size_t>(unit)].batch_tensors;
        names.insert(read.begin(), read.end());
      }
    }
  }
  return names;
}

// The sign of what is not a number means nothing, and -nan reads like a number.
double without_sign_if_nan(double value) { return std::isnan(value) ? std::nan("") : value; }

// Threads that make batches. A step on a GPU may be shorter than one of them needs for its batches, while most cores of
// the rank have nothing to do. A stage learns of the steps in their order, from one thread.
int64_t making_threads(const config::Config& config, const at::Device& device, const comm::World& world) {
  if (!device.is_cuda() || data::data_of_family(config).stage(config).stages()) return 1;
  constexpr int64_t most = 4;
  return std::clamp<int64_t>(world.cores_per_rank() - 1, 1, most);
}

}  // namespace

int64_t choose_threads(int64_t configured) { return configured > 0 ? configured : usable_cores(); }

Trainer::Trainer(const config::Config& config, Peak peak, const ops::KernelChoice& kernels, comm::World* world,
                 std::shared_ptr<const schedule::UnitTable> units)
    : solo_(world == nullptr ? comm::make_solo_world() : nullptr),
      world_(world == nullptr ? solo_.get() : world),
      config_(config),
      peak_(std::move(peak)),
      kernels_(kernels),
      device_(take_device(config.train.device, *world_)),
      data_(data::data_of_family(config).open(config)),
      model_(models::build_model(config, {.device = device_,
                                          .type = nn::scalar_type(config.train.precision),
                                          .kernels = kernels,
                                          .allocate = false,
                                          .context_ranks = config.layout.context})),
      losses_(model_->losses()),
      figures_(observe::figures_of(config).list(config)),
      unit_table_(units ? std::move(units) : std::make_shared<const schedule::UnitTable>(schedule::unit_table(config))),
      own_(*model_, *world_, schedule::resolved_layout(config, *unit_table_, world_->size(), world_->ranks_per_node()),
           config, parallel::sharding_options(config.layout, nn::scalar_type(config.train.gradient_type))),
      state_check_(*world_, *model_, own_.cut, own_.optimizer),
      computation_check_(*world_, *model_, own_.cut, own_.step),
      spikes_(config.train.spike_threshold, config.train.spike_window),
      norms_(*model_, own_.cut, own_.optimizer),
      recompute_layers_(config.layout.recompute_layers),
      micro_batch_(schedule::micro_batch_of(config, mesh().size("data"))),
      sample_flops_(schedule::counted_flops(*unit_table_)),
      tensors_of_model_(schedule::batch_tensors_of(*unit_table_)),
      tensor_names_(names_read(*unit_table_, own_.cut.stage)),
      data_record_(
          Json::parse(broadcast_result(*own_.cut.groups.control, [this] { return data_->identity().dump(); }))),
      loss_scale_(first_loss_scale(config.train)),
      ramp_(config.train, config.phases),
      batches_ahead_([this](int64_t step, std::stop_token stop) { return batches_on_host(step, std::move(stop)); },
                     config.train.steps, making_threads(config, device_, *world_)) {
  unit_table_.reset();
}

void Trainer::set_recompute_layers(const config::RecomputeLayers& layers) {
  config::Config with_numbers = config_;
  with_numbers.layout.recompute_layers = layers;
  const parallel::Stage& stage = own_.cut.stage;
  own_.step.set_recompute(schedule::segment_recompute(stage.partition(), stage.placement(), with_numbers));
  recompute_layers_ = layers;
}

int64_t Trainer::sum_of(int64_t value, const char* what) {
  own_.cut.groups.control->all_reduce(&value, 1, comm::Type::int64, {.what = what}).wait();
  return value;
}

int64_t Trainer::of_first_rank(int64_t value, const char* what) {
  own_.cut.groups.control->broadcast(&value, 1, comm::Type::int64, 0, {.what = what}).wait();
  return value;
}

void Trainer::time_steps(StepTimes* times) {
  times_ = times;
  own_.step.time(times);
}

std::string Trainer::of_rank(int64_t rank, std::string text, const char* what) {
  return broadcast_text(*own_.cut.groups.control, std::move(text), rank, what);
}

data::StepShare Trainer::share_of(int64_t step, int64_t data_rank) const {
  return {.step = step,
          .first_sample = static_cast<uint64_t>(ramp_.samples_before(step)),
          .samples = ramp_.batch_size(step),
          .rank = data_rank,
          .ranks = mesh().size("data"),
          .micro_batch = micro_batch_,
          .budget = config_.train.micro_batch_sizes};
}

std::vector<models::Batch> Trainer::batches_on_host(int64_t step, std::stop_token stop) const {
  if (stage_) stage_->begin_step(step);
  data::StepShare share = share_of(step, mesh().coordinate(world_->rank(), "data"));
  share.stop = std::move(stop);
  std::vector<models::Batch> batches;
  for (data::MicroBatch& micro_batch : data_->micro_batches(share, tensor_names_)) {
    cut_positions(micro_batch);
    batches.push_back(models::on_host(std::move(micro_batch), device_.is_cuda()));
  }
  return batches;
}

std::vector<models::Batch> Trainer::micro_batches(int64_t step) {
  const profile::PhaseRecord record("data");
  std::vector<models::Batch> batches = batches_ahead_.take(step);
  end_start();  // from here on must_stop() is asked between steps
  for (models::Batch& batch : batches) batch = models::to_device(std::move(batch), device_);
  return batches;
}

bool Trainer::samples_differ() const { return !config_.family->settings.sizes.empty(); }

double Trainer::flops_of(const models::Batch& batch) const {
  for (const std::string& name : config_.family->settings.sizes) {
    TERRACE_CHECK(batch.sizes.contains(name), "a micro-batch of the data source states no {}", name);
  }
  return schedule::counted_flops(
      schedule::unit_table(config_, {.samples = batch.samples.numel(), .sizes = batch.sizes}));
}

Trainer::StepCounts Trainer::summed_counts(const std::vector<models::Batch>& batches) {
  const auto own_batches = static_cast<int64_t>(batches.size());
  std::vector<double> counts(losses_.size(), 0.0);
  double flops = 0;
  for (const models::Batch& batch : batches) {
    if (samples_differ() && (own_.cut.has_loss() || times_ != nullptr)) flops += flops_of(batch);
    if (!own_.cut.has_loss()) continue;
    for (size_t term = 0; term < losses_.size(); ++term) counts[term] += batch.counts.at(term);
  }
  std::vector<double> of_copy = counts;
  if (samples_differ()) counts.push_back(own_.cut.has_loss() ? flops : 0);
  counts.push_back(static_cast<double>(own_batches));
  const auto number = static_cast<int64_t>(counts.size());
  own_.cut.groups.control->all_reduce(counts.data(), number, comm::Type::fp64, {.what = "count targets"}).wait();
  TERRACE_CHECK(counts.back() == static_cast<double>(own_batches * world_->size()),
                "{} micro-batches on this rank and {} on all {}: the data source gave ranks different numbers",
                own_batches, counts.back(), world_->size());
  StepCounts sums{.flops = samples_differ() ? counts[losses_.size()] : 0,
                  .own_work = samples_differ() ? flops : static_cast<double>(own_batches)};
  for (size_t term = 0; term < losses_.size(); ++term) sums.of_losses.push_back(models::divisor_of(counts[term]));
  sums.of_copy = sums.of_losses;
  if (!own_.outer) return sums;
  own_.cut.sum_over_copy(of_copy, "count targets of a copy");
  std::ranges::transform(of_copy, sums.of_copy.begin(), models::divisor_of);
  return sums;
}

StepReport Trainer::step() {
  const double began = seconds_on(clock_);
  const int64_t step = steps_done_ + 1;
  const profile::PhaseRecord record(observe::step_phase, step);
  const int64_t samples = ramp_.batch_size(step);
  StepReport report;
  report.loss_scale = loss_scale_.scale;
  report.skipped = leaves_out(step);
  observe::StepMetrics& metrics = report.metrics;
  metrics.step = step;
  if (!config_.phases.empty()) metrics.phase = static_cast<int64_t>(config::phase_at(config_, step));
  metrics.loss = metrics.gradient_norm = std::nan("");
  metrics.learning_rate = optim::learning_rate(config_.optimizer, config_.train.steps, step);
  for (const auto& hook : hooks_) metrics.learning_rate = hook->learning_rate(*this, step, metrics.learning_rate);
  if (!report.skipped) {
    begin_checks(step);
    if (times_ != nullptr) times_->begin_step();
    const std::vector<models::Batch> batches = micro_batches(step);
    if (times_ != nullptr) times_->mark(observe::WorkKind::data);
    const StepCounts counts = summed_counts(batches);
    own_work_ = counts.own_work;
    report.flops = samples_differ() ? counts.flops : sample_flops_ * static_cast<double>(samples);
    const int64_t copies = own_.outer ? own_.cut.groups.replicas->size() : 1;
    const models::Pass pass{
        .seed = config_.train.seed,
        .step = step,
        .gradient_scales = models::gradient_scales(losses_, counts.of_copy, loss_scale_.scale),
        .sample_scale = loss_scale_.scale * static_cast<double>(copies) / static_cast<double>(samples)};
    const bool measures_noise = measures_noise_scale(step, batches.size());
    begin_computation_check(pass);
    own_.cut.first_gradients.begin_step(measures_noise);
    own_.step.run(batches, pass, metrics.learning_rate, [&](const StepSums& sums) -> std::optional<double> {
      if (!passes_checks()) return std::nullopt;
      observe::TermSums terms = sums.losses;
      models::set_counts(counts.of_losses, terms);
      metrics.figures = observe::values_of(figures_, with_tallies(terms, sums.tallies, samples), /*of_step=*/true);
      if (measures_noise)
        measure_noise_scale(batches.front(), samples, sums.gradients.norm / loss_scale_.scale, metrics);
      return judge_gradients(models::weighted_mean(losses_, terms), sums.gradients, batches, report);
    });
    act_on_findings(pass);
    go_back_before_spike(step);
  }
  own_.update_copies(config_.train.seed, step);
  steps_done_ = step;
  if (checks_states_after(step)) check_states();
  const int64_t items = data_->items(static_cast<uint64_t>(ramp_.samples_before(step)), samples);
  items_done_ += items;
  metrics.items = items_done_;
  metrics.memory_bytes = peak_bytes(device_);
  if (report.skipped) return report;
  if (stage_) metrics.stage = stage_->metrics();
  metrics.watch = watch_;
  metrics.step_seconds = seconds_on(clock_) - began;
  metrics.items_per_second = static_cast<double>(items) / metrics.step_seconds;
  if (peak_.known()) add_mfu(report.flops, metrics);
  return report;
}

bool Trainer::measures_noise_scale(int64_t step, size_t micro_batches) const {
  const int64_t every = config_.train.noise_scale_every;
  // One micro-batch alone has no smaller batch beside it.
  return every > 0 && step % every == 0 && (micro_batches > 1 || mesh().size("data") > 1);
}

void Trainer::measure_noise_scale(const models::Batch& first, int64_t samples, double gradient_norm,
                                  observe::StepMetrics& metrics) {
  const auto own = static_cast<double>(first.samples.numel()), all = static_cast<double>(samples);
  const double own_squares = own_.cut.first_gradients.squares();
  std::array<double, 3> sums = {};  // of squared norms, of 1 / samples, and of the ranks that have samples
  if (own > 0) {
    // The gradient is the micro-batch's part of the mean over the step, times the loss scale.
    const double to_mean = all / own / loss_scale_.scale;
    sums[0] = own_squares * to_mean * to_mean;
    if (own_.cut.has_loss()) sums[1] = 1 / own;
    if (own_.cut.has_loss()) sums[2] = 1;
  }
  own_.cut.groups.control->all_reduce(sums.data(), std::ssize(sums), comm::Type::fp64, {.what = "gradient noise scale"})
      .wait();
  noise_scale_.add({.small = sums[0] / sums[2],
                    .inverse_samples = sums[1] / sums[2],
                    .large = gradient_norm * gradient_norm,
                    .samples = all});
  metrics.noise_scale = noise_scale_.samples();
}

void Trainer::add_mfu(double step_flops, observe::StepMetrics& metrics) {
  const double rate = step_flops / metrics.step_seconds;
  if (rate > peak_.flops_per_second) {
    if (rank() == 0 && !peak_raised_) {
      log_warning("step {} computes with {}, more than {} of {}: from now on mfu is a share of the fastest step's rate",
                  metrics.step, format_flops(rate), format_flops(peak_.flops_per_second), peak_.name);
    }
    if (!peak_raised_) peak_.name = fmt::format("the fastest step here, faster than {}", peak_.name);
    peak_raised_ = true;
    peak_.flops_per_second = rate;
  }
  metrics.peak_flops_per_second = peak_.flops_per_second;
  metrics.mfu = rate / peak_.flops_per_second;
}

std::optional<double> Trainer::judge_gradients(double loss, const optim::GradientNorm& gradients,
                                               const std::vector<models::Batch>& batches, StepReport& report) {
  report.metrics.loss = without_sign_if_nan(loss);
  report.metrics.gradient_norm = without_sign_if_nan(gradients.norm / loss_scale_.scale);
  const double scale = loss_scale_.scale;
  const bool finite = std::isfinite(loss) && std::isfinite(gradients.norm);
  report.applied = finite;
  const bool overflow_expected = loss_scale_.window > 0 && std::isfinite(loss);
  if (overflow_expected || finite) loss_scale_.update(finite);
  // Gradients are those of the mean loss over the targets of all ranks, times the loss scale alone.
  if (loss_scale_.scale != scale) own_.cut.sharded.scale_errors(loss_scale_.scale / scale);
  if (!finite) {
    const bool may_continue =
        overflow_expected ? !loss_scale_.exhausted() : config_.train.on_nan == config::OnNan::skip;
    if (!may_continue) stop_not_finite(report, gradients.first_bad);
    if (rank() == 0) {
      log_warning("step {}: {}; the update is skipped", report.metrics.step,
                  overflow_expected
                      ? fmt::format("fp16 overflow, loss scale {} -> {}", scale, loss_scale_.scale)
                      : fmt::format("loss {}, first bad gradient {}", report.metrics.loss, gradients.first_bad));
    }
    if (!overflow_expected && ++skipped_in_a_row_ == most_skipped) stop_skipping();
    return std::nullopt;
  }
  if (leaves_out_spike(report, batches)) {
    report.applied = false;
    if (++skipped_in_a_row_ == most_skipped) stop_skipping();
    return std::nullopt;
  }
  skipped_in_a_row_ = 0;
  return optim::clip_multiplier(report.metrics.gradient_norm, config_.optimizer.clip) / scale;
}

void Trainer::stop_not_finite(const StepReport& report, const std::string& first_bad) {
  for (const auto& hook : hooks_) hook->finish_background_work();
  const auto checkpoints = checkpoint::list(config_.checkpoint.folder);
  throw std::runtime_error(fmt::format(
      "step {}: the loss is {} and the gradient norm {}; first parameter with a bad gradient: {}; {} a lower "
      "optimizer.learning_rate, or skip the data with train.skip_steps or train.on_nan = \"skip\"",
      report.metrics.step, report.metrics.loss, report.metrics.gradient_norm, first_bad.empty() ? "none" : first_bad,
      checkpoints.empty()
          ? "there is no checkpoint yet. Start again with"
          : fmt::format("last good checkpoint: {}. Continue from it with --resume and", checkpoints.back().string())));
}

void Trainer::stop_skipping() {
  throw std::runtime_error(fmt::format(
      "{} updates in a row were left out because the loss or a gradient was not finite or a spike: the run has broken "
      "down. {} a lower optimizer.learning_rate",
      most_skipped,
      checkpoint::list(config_.checkpoint.folder).empty() ? "There is no checkpoint yet: start again with"
                                                          : "Continue from an earlier checkpoint with --resume and"));
}

data::RoundShare Trainer::first_round() const {
  return {.rank = mesh().coordinate(world_->rank(), "data"),
          .ranks = mesh().size("data"),
          .micro_batch = micro_batch_,
          .budget = config_.train.micro_batch_sizes};
}

std::optional<observe::TermSums> Trainer::held_out_sums(const data::HeldOut& held_out) {
  observe::TermSums all = models::no_sums(losses_);
  data::RoundShare share = first_round();
  for (const int64_t number = rounds(held_out); share.round < number; ++share.round) {
    for (const auto& hook : hooks_) hook->during_evaluation(*this);
    if (must_stop()) return std::nullopt;
    if (share.round > 0) end_start();
    data::MicroBatch micro_batch = data_->held_out_micro_batch(held_out, share, tensor_names_);
    cut_positions(micro_batch);
    const models::Batch batch = models::to_device(models::on_host(std::move(micro_batch)), device_);
    observe::TermSums sums = own_.step.evaluate(batch);
    if (!own_.cut.has_loss()) continue;
    models::set_counts(batch.counts, sums);
    models::add(losses_, sums, all);
  }
  put_together(*own_.cut.groups.control, losses_, all, "validation loss");
  std::vector<double> counts;
  for (const observe::TermSum& sum : all) counts.push_back(sum.count);
  const auto number = static_cast<int64_t>(counts.size());
  own_.cut.groups.control->all_reduce(counts.data(), number, comm::Type::fp64, {.what = "validation loss"}).wait();
  models::set_counts(counts, all);
  return all;
}

HeldOutFigures Trainer::figures_of(const std::string& dataset, const observe::TermSums& sums) const {
  return {.dataset = dataset,
          .loss = without_sign_if_nan(models::weighted_mean(losses_, sums)),
          .figures = observe::values_of(figures_, sums, /*of_step=*/false),
          .count = sums.front().count};
}

uint64_t Trainer::held_out_limit(int64_t batches) const {
  return batches == 0 ? std::numeric_limits<uint64_t>::max()
                      : static_cast<uint64_t>(batches) * static_cast<uint64_t>(config_.train.global_batch);
}

std::optional<Evaluation> Trainer::evaluate(int64_t batches) {
  Evaluation evaluation;
  observe::TermSums all = models::no_sums(losses_);
  for (const data::HeldOut& held_out : data_->held_out(held_out_limit(batches))) {
    const std::optional<observe::TermSums> sums = held_out_sums(held_out);
    if (!sums) return std::nullopt;
    evaluation.by_dataset.push_back(figures_of(held_out.dataset, *sums));
    models::add(losses_, *sums, all);
  }
  evaluation.all = figures_of("", all);
  return evaluation;
}

observe::MetricNames Trainer::metric_names() const {
  observe::MetricNames names{.items = config_.family->items};
  for (const observe::Figure& figure : figures_) {
    if (figure.in_steps) names.figures.push_back(figure.name);
    if (figure.in_evaluations) names.evaluation_figures.push_back(figure.name);
  }
  return names;
}

std::string Trainer::figures_text(const std::vector<double>& evaluated) const {
  constexpr size_t most_shown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(evaluated.size(), most_shown); ++i) {
    text += fmt::format(", {} {:.4g}{}", figures_[i].name, evaluated[i],
                        figures_[i].unit.empty() ? "" : " " + figures_[i].unit);
  }
  if (evaluated.size() > most_shown)
    text += fmt::format(", and {} more in metrics.jsonl", evaluated.size() - most_shown);
  return text;
}

bool Trainer::must_stop() { return any_rank(stop_requested() || !stop_reason_.empty(), "stop"); }

bool Trainer::finished() const {
  return all_steps_done() && std::ranges::all_of(hooks_, [](const auto& hook) { return hook->finished(); });
}

data::FileRanges Trainer::reads(int64_t step, int64_t data_rank, const data::TensorNames& names) const {
  const config::TrainConfig& train = config_.train;
  data::FileRanges ranges;
  if (!leaves_out(step)) ranges = data_->reads(share_of(step, data_rank), names);
  if (train.evaluate_every == 0 || (step % train.evaluate_every != 0 && step != train.steps)) return ranges;
  for (const data::HeldOut& held_out : data_->held_out(held_out_limit(train.evaluate_batches))) {
    data::RoundShare share = first_round();
    share.rank = data_rank;
    for (const int64_t number = rounds(held_out); share.round < number; ++share.round) {
      const data::FileRanges more = data_->held_out_reads(held_out, share, names);
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
  }
  return ranges;
}

void Trainer::stage_data() {
  const data::StageConfig stage = data::data_of_family(config_).stage(config_);
  if (!stage.stages() || all_steps_done()) return;
  stage_ = std::make_shared<DataStage>(
      *data_, *world_, *own_.cut.groups.control, tensors_of_model_,
      DataStageRequest{
          .config = stage,
          .first_step = steps_done_ + 1,
          .last_step = config_.train.steps,
          .ranks_per_node = mesh().topology().ranks_per_node,
          .data_rank = mesh().coordinate(world_->rank(), "data"),
          .data_ranks = mesh().size("data"),
          .first_sample = [this](int64_t step) { return static_cast<uint64_t>(ramp_.samples_before(step)); },
          .names = tensor_names_,
          .reads = [this](int64_t step, int64_t data_rank,
                          const data::TensorNames& names) { return reads(step, data_rank, names); }});
}

void Trainer::start() {
  if (std::exchange(started_, true)) return;
  stage_data();
  if (all_steps_done()) end_start();
  for (const auto& hook : hooks_) hook->at_start(*this);
}

void Trainer::run() {
  start();
  while (!all_steps_done() && !must_stop()) {
    const StepReport report = step();
    for (const auto& hook : hooks_) hook->after_step(*this, report);
  }
  if (config_.train.check_states_every > 0 && states_checked_ != steps_done_) check_states();
  end_start();  // also where no step was made: what hooks save is not to be cut off
  for (const auto& hook : hooks_) hook->at_end(*this);
  if (stage_) stage_->finish();
}

}  // namespace terrace::train
