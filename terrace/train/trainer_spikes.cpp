// Looks for spikes in the steps of a trainer, keeps records of them, and leaves out what the configuration says.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/config/names.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/train/rewind.h"
#include "terrace/train/trainer.h"

namespace terrace::train {
namespace {

// After a spike, the norms of so many further steps are added to its record.
constexpr int64_t steps_after = 3;

Json json_of(const optim::Deviation& deviation) {
  return {{"value", deviation.value},
          {"median", deviation.median},
          {"deviation", deviation.deviation},
          {"deviations_above", deviation.above()}};
}

std::string text_of(const char* what, const optim::Deviation& deviation) {
  return fmt::format("the {} {:.4g} is {:.3g} deviations above the median {:.4g}", what, deviation.value,
                     deviation.above(), deviation.median);
}

std::string text_of(const optim::Spike& spike) {
  if (!spike.of_gradient_norm) return text_of("loss", spike.loss);
  if (!spike.of_loss) return text_of("gradient norm", spike.gradient_norm);
  return text_of("loss", spike.loss) + ", and " + text_of("gradient norm", spike.gradient_norm);
}

}  // namespace

void Trainer::leave_out_steps(const std::set<int64_t>& steps) { left_out_steps_.insert(steps.begin(), steps.end()); }

bool Trainer::leaves_out(int64_t step) const {
  return data::skipped(config_.train, step) || left_out_steps_.contains(step);
}

// The mean loss of each micro-batch of all data-parallel ranks, those of a rank one after another.
std::vector<double> Trainer::losses_of_micro_batches(const std::vector<models::Batch>& batches) {
  const int64_t ranks = mesh().size("data"), own = mesh().coordinate(rank(), "data");
  std::vector<double> losses(static_cast<size_t>(ranks) * batches.size(), 0.0);
  if (own_.cut.has_loss()) {
    std::vector<observe::TermSums> sums = own_.step.losses_of_micro_batches();
    for (size_t i = 0; i < sums.size(); ++i) {
      models::set_counts(batches[i].counts, sums[i]);
      losses[static_cast<size_t>(own) * batches.size() + i] = models::weighted_mean(losses_, sums[i]);
    }
  }
  own_.cut.groups.control
      ->all_reduce(losses.data(), std::ssize(losses), comm::Type::fp64, {.what = "losses of micro-batches"})
      .wait();
  return losses;
}

// The micro-batches of the step with their losses and samples, the largest loss first.
Json Trainer::micro_batch_records(int64_t step, const std::vector<double>& losses) const {
  constexpr size_t most_described = 256;  // samples, since a step may have millions
  std::vector<Json> records;
  const int64_t ranks = mesh().size("data");
  for (int64_t data_rank = 0; data_rank < ranks; ++data_rank) {
    const auto numbers = data_->sample_numbers(share_of(step, data_rank));
    for (size_t i = 0; i < numbers.size(); ++i) {
      records.push_back({{"data_rank", data_rank},
                         {"micro_batch", i},
                         {"loss", losses.at(static_cast<size_t>(data_rank) * numbers.size() + i)},
                         {"samples", numbers[i]}});
    }
  }
  std::ranges::stable_sort(records, [](const Json& a, const Json& b) { return a.at("loss") > b.at("loss"); });
  size_t described = 0;
  for (Json& record : records) {
    if (described >= most_described) break;
    for (Json& sample : record["samples"]) sample = data_->sample_record(sample.get<uint64_t>());
    described += record["samples"].size();
  }
  return records;
}

void Trainer::record_spike(int64_t step, const optim::Spike& spike, const std::vector<models::Batch>& batches) {
  const std::vector<double> losses = losses_of_micro_batches(batches), weights = norms_.weights();
  const std::vector<ParameterNorms::OfStep> gradients = norms_.gradients();
  recorded_until_ = step + steps_after;
  if (rank() != 0) return;
  Json parameters = Json::array();
  const std::vector<std::string> names = norms_.names();
  for (size_t i = 0; i < names.size(); ++i) {
    Json of_steps = Json::object();
    for (const ParameterNorms::OfStep& one : gradients) of_steps[std::to_string(one.step)] = one.gradients[i];
    parameters.push_back({{"name", names[i]}, {"weight_norm", weights[i]}, {"gradient_norms", std::move(of_steps)}});
  }
  spike_record_ = {{"step", step},
                   {"on_spike", config::name_of(config_.train.on_spike)},
                   {"loss", json_of(spike.loss)},
                   {"gradient_norm", json_of(spike.gradient_norm)},
                   {"losses_before", spikes_.losses()},
                   {"gradient_norms_before", spikes_.gradient_norms()},
                   {"micro_batches", micro_batch_records(step, losses)},
                   {"parameters", std::move(parameters)}};
  write_spike_record();
}

std::filesystem::path Trainer::spike_record_path(int64_t step) const {
  return std::filesystem::path(config_.checkpoint.folder) / spikes_folder / fmt::format("step_{}.json", step);
}

void Trainer::write_spike_record() const {
  const std::filesystem::path path = spike_record_path(spike_record_.at("step").get<int64_t>());
  try {
    std::filesystem::create_directories(path.parent_path());
    // Texts may end in the middle of a character.
    write_text_atomically(path, spike_record_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::system_error& error) {
    log_warning("the record of a spike cannot be written: {}", error.what());
  }
}

// Adds the norms of a step after the spike.
void Trainer::extend_spike_record(int64_t step) {
  if (step > recorded_until_) return;
  const ParameterNorms::OfStep latest = norms_.latest_gradients();
  if (rank() != 0) return;
  Json& parameters = spike_record_["parameters"];
  for (size_t i = 0; i < latest.gradients.size(); ++i) {
    parameters[i]["gradient_norms"][std::to_string(step)] = latest.gradients[i];
  }
  write_spike_record();
}

bool Trainer::leaves_out_spike(const StepReport& report, const std::vector<models::Batch>& batches) {
  using config::OnSpike;
  const OnSpike action = config_.train.on_spike;
  if (action == OnSpike::ignore) return false;
  const observe::StepMetrics& metrics = report.metrics;
  const int64_t step = metrics.step;
  norms_.note_gradients(step, 1 / report.loss_scale);
  const std::optional<optim::Spike> spike = spikes_.find(metrics.loss, metrics.gradient_norm);
  extend_spike_record(step);
  if (spike) {
    record_spike(step, *spike, batches);
    const char* done = action == OnSpike::warn   ? "the update is made"
                       : action == OnSpike::skip ? "the update is left out"
                                                 : "the run goes back and leaves out the samples of this step";
    if (rank() == 0) {
      log_warning("step {}: {} of the last {} steps; {}; {} has the samples and the norms of layers", step,
                  text_of(*spike), spikes_.losses().size(), done, spike_record_path(step).string());
    }
  }
  if (spike && action != OnSpike::warn) {
    if (action == OnSpike::back) spike_to_leave_out_ = text_of(*spike);
    return true;
  }
  spikes_.add(metrics.loss, metrics.gradient_norm);
  return false;
}

void Trainer::go_back_before_spike(int64_t step) {
  if (spike_to_leave_out_.empty()) return;
  for (const auto& hook : hooks_) hook->finish_background_work();
  leave_out_steps({step});
  int64_t in_a_row = 1;
  while (left_out_steps_.contains(step - in_a_row)) ++in_a_row;
  if (in_a_row >= most_skipped) stop_skipping();
  if (rank() == 0) write_left_out_steps(config_.checkpoint.folder, left_out_steps_);
  // No rank reads the list before it is written.
  own_.cut.groups.control->barrier({.what = "list of left-out steps"}).wait();
  throw Rewind{.cause = Rewind::Cause::spike,
               .step = step,
               .began_after = began_after_,
               .reason = fmt::format("step {}: {}", step, spike_to_leave_out_)};
}

Json Trainer::spike_window() const {
  return {{"losses", spikes_.losses()}, {"gradient_norms", spikes_.gradient_norms()}};
}

void Trainer::restore_spikes(const Json& saved) {
  if (const auto window = saved.find("spike_window"); window != saved.end()) {
    spikes_.restore(window->at("losses").get<std::deque<double>>(),
                    window->at("gradient_norms").get<std::deque<double>>());
  }
  if (const auto steps = saved.find("left_out_steps"); steps != saved.end()) {
    leave_out_steps(steps->get<std::set<int64_t>>());
  }
}

}  // namespace terrace::train
