// Records a few steps instruction by instruction, and compares them with a prediction.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <numeric>
#include <utility>

#include "terrace/base/terminal/log.h"
#include "terrace/config/phases.h"
#include "terrace/machine/software.h"
#include "terrace/observe/step_comparison.h"
#include "terrace/observe/step_record.h"
#include "terrace/plan/report/step_record.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/profiled_ranks.h"

namespace terrace::run {
namespace {

constexpr size_t measured_steps = 3;

// The bytes that a group has sent and the seconds that it has waited so far. Receives are left out, since they wait for
// the sender's computation too.
observe::CommunicationRecord traffic_of(const std::string& name, const comm::Comm& group) {
  observe::CommunicationRecord sum{.name = name};
  double waiting = 0;
  for (size_t kind = 0; kind < comm::num_kinds; ++kind) {
    if (static_cast<comm::Kind>(kind) == comm::Kind::receive) continue;
    const comm::Traffic& one = group.traffic(static_cast<comm::Kind>(kind));
    sum.bytes += static_cast<double>(one.bytes);
    sum.moving_seconds += one.moving_seconds;
    waiting += one.exposed_seconds;
  }
  sum.waiting_seconds = waiting;
  return sum;
}

std::vector<observe::CommunicationRecord> traffic_of(parallel::CutModel& cut) {
  const parallel::DataGroups& groups = cut.groups;
  std::vector<observe::CommunicationRecord> all;
  const auto add = [&](const char* name, const comm::Comm* group) {
    if (group != nullptr && group->size() > 1) all.push_back(traffic_of(name, *group));
  };
  add("tensor", &cut.tensor.group());
  add("stages", &cut.stage.group());
  add("statistics", cut.data_ranks.group());
  for (const comm::Comm* group : groups.of_movements()) {
    if (group->size() > 1) all.push_back(traffic_of(group->group().name, *group));
  }
  return all;
}

// The traffic between two looks at the groups; groups that sent nothing are left out.
std::vector<observe::CommunicationRecord> difference(std::vector<observe::CommunicationRecord> now,
                                                     const std::vector<observe::CommunicationRecord>& before) {
  for (size_t i = 0; i < now.size(); ++i) {
    now[i].bytes -= before[i].bytes;
    now[i].moving_seconds -= before[i].moving_seconds;
    *now[i].waiting_seconds -= *before[i].waiting_seconds;
  }
  std::erase_if(now, [](const observe::CommunicationRecord& one) { return one.bytes == 0; });
  return now;
}

double optimizer_bytes(optim::AdamW& optimizer) {
  double sum = 0;
  for (const optim::AdamW::State& state : optimizer.states()) {
    for (const at::Tensor& tensor : {state.m, state.v}) sum += static_cast<double>(tensor.nbytes());
    if (!state.master.is_alias_of(state.shard.value)) sum += static_cast<double>(state.master.nbytes());
  }
  return sum;
}

// Keeps, of the stages' groups of one name, the group that sends most.
void keep_larger(const observe::CommunicationRecord& group, std::vector<observe::CommunicationRecord>& groups) {
  const auto known = std::ranges::find(groups, group.name, &observe::CommunicationRecord::name);
  if (known == groups.end()) {
    groups.push_back(group);
  } else if (group.bytes > known->bytes) {
    *known = group;
  }
}

class MeasureHook : public train::Hook {
 public:
  MeasureHook(train::Trainer& trainer, Measuring measuring)
      : measuring_(std::move(measuring)), recorder_(trainer.device(), measuring_.meter) {}

  void at_start(train::Trainer& trainer) override {
    const int64_t left = trainer.config().train.steps - trainer.steps_done();
    const int64_t later = profile_warm_up + measuring_.later_by;
    if (left >= later + static_cast<int64_t>(measured_steps)) first_ = later;
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (done_ || report.skipped) return;
    if (++steps_ < first_) return;
    if (steps_ > first_) add(trainer, report);
    if (records_.size() == measured_steps) return finish(trainer);
    trainer.record_steps(&recorder_);
    traffic_ = traffic_of(trainer.cut());
    if (measuring_.all_ranks) calls_ = calls_of(trainer.cut());
  }

  void at_end(train::Trainer& trainer) override {
    if (done_ || records_.empty()) return end(trainer);
    finish(trainer);
  }

 private:
  void add(train::Trainer& trainer, const train::StepReport& report) {
    observe::StageRecord stage = recorder_.stage_record();
    const mesh::Mesh& mesh = trainer.mesh();
    stage.rank = trainer.rank();
    stage.stage = mesh.coordinate(trainer.rank(), "pipeline");
    const double other = report.metrics.step_seconds - observe::sum(stage.seconds);
    if (other > 0) stage.seconds.push_back({"other", other});
    const parallel::StateBytes &held = trainer.cut().sharded.bytes(), &peak = trainer.cut().sharded.peak_bytes();
    const auto bytes = [](int64_t number) { return static_cast<double>(number); };
    int64_t buffers = 0;
    for (const nn::Buffer* buffer : trainer.cut().stage.buffers()) {
      buffers += static_cast<int64_t>(buffer->value.nbytes());
    }
    stage.memory_bytes = {{"weights", bytes(held.weights + buffers)},
                          {"gradients", bytes(held.gradients)},
                          {"optimizer", optimizer_bytes(trainer.optimizer())}};
    if (held.feedback > 0) stage.memory_bytes.push_back({"feedback", bytes(held.feedback)});
    const double gathers = bytes(peak.gathered_weights) + bytes(peak.whole_gradients);
    if (gathers > 0) stage.memory_bytes.push_back({"gathers", gathers});
    const double rest = recorder_.peak_bytes() - observe::sum(stage.memory_bytes);
    stage.memory_bytes.push_back({observe::in_step_memory, std::max(0.0, rest)});
    records_.push_back({.source = "measured",
                        .software = "terrace",
                        .step = report.metrics.step,
                        .step_seconds = report.metrics.step_seconds,
                        .model_flops = report.flops,
                        .links = {"links"},
                        .stages = {std::move(stage)},
                        .groups = difference(traffic_of(trainer.cut()), traffic_)});
    if (measuring_.all_ranks) own_steps_.push_back(own_step(trainer, recorder_.timed(), calls_));
    observe::StepRecord& record = records_.back();
    for (observe::CommunicationRecord& group : record.groups) group.stage = record.stages.front().stage;
  }

  // The recorded step with the median time, as the first rank measured it.
  size_t chosen(train::Trainer& trainer) {
    std::vector<size_t> order(records_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t i) { return records_[i].step_seconds; });
    return static_cast<size_t>(trainer.of_first_rank(static_cast<int64_t>(order[order.size() / 2]), "measured step"));
  }

  // Every rank calls it after the same step; the first rank writes.
  void finish(train::Trainer& trainer) {
    const size_t number = chosen(trainer);
    const observe::StepRecord own = records_.at(number);
    const std::vector<int64_t> ranks = trainer.mesh().group(0, "pipeline").ranks;
    observe::StepRecord all = own;
    all.stages.clear();
    for (const int64_t rank : ranks) {
      const std::string text =
          trainer.of_rank(rank, rank == trainer.rank() ? observe::json_of(own).dump() : "", "measured step");
      if (trainer.rank() != 0) continue;
      const observe::StepRecord of_stage = observe::step_record_of(Json::parse(text));
      all.stages.push_back(of_stage.stages.front());
      for (const observe::CommunicationRecord& group : of_stage.groups) keep_larger(group, all.groups);
    }
    std::optional<observe::ProfiledRanks> profiled;
    if (measuring_.all_ranks) profiled = profiled_ranks(trainer, own, own_steps_.at(number));
    try {
      if (trainer.rank() == 0) write(trainer, all);
      if (profiled) observe::write_rank_profiles(*profiled, trainer.config().checkpoint.folder);
      if (profiled && measuring_.report_ranks) measuring_.report_ranks(*profiled);
    } catch (const std::exception& error) {
      // The run goes on without its record.
      log_warning("the measured step is not recorded: {}", error.what());
    }
    end(trainer);
  }

  void write(train::Trainer& trainer, observe::StepRecord& measured) const {
    const std::filesystem::path folder = trainer.config().checkpoint.folder;
    if (measuring_.machine) {
      const plan::Target target{.machine = *measuring_.machine,
                                .software = machine::load_software("terrace"),
                                .devices = trainer.mesh().size()};
      measured.machine = target.machine.name;
      config::Config config = trainer.config();
      config.layout.recompute_layers = trainer.recompute_layers();
      const observe::StepRecord predicted =
          plan::step_record(config::in_phase(config, config::phase_at(config, measured.step)), target);
      write_step_record(predicted, folder / observe::predicted_step_file);
      for (observe::CommunicationRecord& group : measured.groups) {
        const auto same = std::ranges::find(predicted.groups, group.name, &observe::CommunicationRecord::name);
        if (same != predicted.groups.end()) group.tier = same->tier;
      }
      const observe::StepComparison comparison = compare(predicted, measured);
      log_info("{}", text_of(comparison));
      for (const std::string& warning : warnings_of(comparison)) log_warning("{}", warning);
    }
    write_step_record(measured, folder / observe::measured_step_file);
  }

  void end(train::Trainer& trainer) {
    trainer.record_steps(nullptr);
    records_.clear();
    own_steps_.clear();
    if (!std::exchange(done_, true) && measuring_.end) measuring_.end();
  }

  Measuring measuring_;
  train::StepRecorder recorder_;
  std::vector<observe::CommunicationRecord> traffic_;  // before the present step
  std::vector<observe::StepRecord> records_;           // of this rank's steps
  std::vector<observe::GroupWait> calls_;              // before the present step, of all groups
  std::vector<OwnStep> own_steps_;
  int64_t steps_ = 0, first_ = profile_warm_up;  // made so far, and before the recorded ones
  bool done_ = false;
};

}  // namespace

std::unique_ptr<train::Hook> make_measure_hook(train::Trainer& trainer, Measuring measuring) {
  return std::make_unique<MeasureHook>(trainer, std::move(measuring));
}

}  // namespace terrace::run
