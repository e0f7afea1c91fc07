// Compares the time of a pipeline of two stages and eight micro-batches with the time that its instruction lists allow
// at the times that its instructions took in the same step, for 1F1B and ZB-H1 on a balanced model, two ranks as
// threads. Usage: bench_layouts_pipeline_efficiency [ROUNDS [STEPS [section.key=value...]]]
#include <spdlog/spdlog.h>

#include <map>
#include <tuple>

#include "bench_run.h"
#include "terrace/base/error.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/schedule/step/times.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;
using schedule::Instruction;
using Kind = Instruction::Kind;

constexpr int64_t stages = 2, micro_batches = 8;
// A small vocabulary: a large head would make the last stage slower than the first.
constexpr int64_t vocabulary = 512;

// The spans of one step on one stage.
struct StageStep {
  observe::Span whole;
  std::vector<observe::Span> computations = {};  // in order
  std::vector<double> seconds = {};              // of each, without waiting for other stages
  observe::Span optimizer = {};
};

double seconds_of(const observe::Span& span) { return 1e-9 * static_cast<double>(span.end_ns - span.begin_ns); }

bool lies_in(const observe::Span& inner, const observe::Span& outer) {
  return outer.begin_ns <= inner.begin_ns && inner.end_ns <= outer.end_ns;
}

StageStep stage_step(const observe::Span& whole, const std::vector<observe::Span>& spans) {
  StageStep step{.whole = whole};
  for (const observe::Span& span : spans) {
    if (!lies_in(span, whole)) continue;
    // The norm and the update are phases of their own.
    if (span.name == "optimizer" && step.optimizer.name.empty()) step.optimizer = span;
    if (span.name == "optimizer") step.optimizer.end_ns = span.end_ns;
    if (span.name != "forward" && span.name != "backward" && span.name != "weight gradient") continue;
    step.computations.push_back(span);
    step.seconds.push_back(seconds_of(span));
    for (const observe::Span& other : spans) {
      if (other.name == "receive" && lies_in(other, span)) step.seconds.back() -= seconds_of(other);
    }
  }
  return step;
}

// Steps, by step and then by stage; without the first step, which warms up.
std::vector<std::vector<StageStep>> steps_of(observe::Trace trace) {
  std::vector<std::vector<StageStep>> steps;
  for (observe::Lane& lane : trace) {
    if (lane.rank < 0) continue;
    std::ranges::sort(lane.spans, observe::encloses_or_precedes);
    size_t number = 0;
    for (const observe::Span& span : lane.spans) {
      if (span.name != observe::step_phase || number++ == 0) continue;
      if (steps.size() < number - 1) steps.emplace_back(stages);
      steps[number - 2][static_cast<size_t>(lane.rank)] = stage_step(span, lane.spans);
    }
  }
  return steps;
}

struct Measured {
  double ideal, list, whole;  // seconds
};

const char* phase_of(Kind kind) {
  return kind == Kind::forward ? "forward" : kind == Kind::weight_gradient ? "weight gradient" : "backward";
}

Measured compare(const std::vector<StageStep>& step, const schedule::Pipeline& pipeline) {
  using Key = std::tuple<int64_t, Kind, int64_t>;
  const auto lists = schedule::instructions(pipeline);
  int64_t list_begin = step[0].computations.at(0).begin_ns, list_end = 0, barrier = 0;
  int64_t step_begin = step[0].whole.begin_ns, step_end = 0;
  for (const StageStep& stage : step) {
    list_begin = std::min(list_begin, stage.computations.at(0).begin_ns);
    list_end = std::max(list_end, stage.optimizer.end_ns);
    step_begin = std::min(step_begin, stage.whole.begin_ns);
    step_end = std::max(step_end, stage.whole.end_ns);
    barrier = std::max(barrier, stage.optimizer.begin_ns);
  }
  std::map<Key, double> seconds;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const StageStep& own = step[static_cast<size_t>(stage)];
    // An instruction of the stage is one phase a unit.
    const auto phases_of = [&](Kind kind) {
      return std::ranges::count(own.computations, phase_of(kind), &observe::Span::name) / pipeline.micro_batches;
    };
    size_t next = 0;
    for (const Instruction& instruction : lists[static_cast<size_t>(stage)]) {
      double& taken = seconds[{stage, instruction.kind, instruction.micro_batch}];
      if (instruction.kind == Kind::optimizer_step) {
        taken = 1e-9 * static_cast<double>(own.optimizer.end_ns - barrier);
      } else if (schedule::is_computation(instruction.kind)) {
        for (int64_t unit = phases_of(instruction.kind); unit > 0; --unit) {
          TERRACE_CHECK(own.computations.at(next).name == phase_of(instruction.kind), "phases of another list");
          taken += own.seconds[next++];
        }
      }
    }
    TERRACE_CHECK(next == own.computations.size(), "more phases than instructions");
  }
  const schedule::ScheduleCosts costs{.seconds = [&](int64_t stage, const Instruction& instruction) {
    return seconds.at({stage, instruction.kind, instruction.micro_batch});
  }};
  const auto times = schedule::simulate_schedule(lists, schedule::placement(pipeline), costs);
  return {.ideal = times.seconds,
          .list = 1e-9 * static_cast<double>(list_end - list_begin),
          .whole = 1e-9 * static_cast<double>(step_end - step_begin)};
}

std::vector<Measured> measure(const config::Config& config, int64_t steps) {
  profile::RankThreads threads;
  profile::OperationRecorder recorder(at::kCPU, &threads, profile::OperationRecorder::Records::phases);
  comm::run_threads(stages, train::world_options(config), [&](comm::World& world) {
    threads.add(world.rank());
    train::Trainer trainer(config, train::Peak{}, {}, &world);
    for (int64_t i = 0; i <= steps; ++i) trainer.step();
  });
  std::vector<Measured> measured;
  for (const auto& step : steps_of(recorder.finish())) {
    measured.push_back(compare(step, schedule::pipeline_of(config.layout, micro_batches)));
  }
  return measured;
}

std::string shown(const bench::Quartiles& q) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", q.middle, q.low, q.high);
}

bench::Quartiles quartiles_of(const std::vector<Measured>& all, const std::function<double(const Measured&)>& value) {
  std::vector<double> values;
  for (const Measured& one : all) values.push_back(value(one));
  return bench::quartiles(values);
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t rounds = count > 1 ? std::stoll(arguments[1]) : 10;
  const int64_t steps = count > 2 ? std::stoll(arguments[2]) : 3;
  spdlog::set_level(spdlog::level::warn);
  train::prepare_machine(1);
  const bench::Folder folder;
  std::vector<std::string> overrides = {"model.layers=8",     "model.width=512",   "model.heads=8",
                                        "model.sequence=256", "layout.pipeline=2", "train.global_batch=8",
                                        "train.micro_batch=1"};
  overrides.insert(overrides.end(), arguments + std::min(count, 3), arguments + count);
  const std::vector<std::string> schedules = {"1f1b", "zb-h1"};
  std::vector<std::vector<Measured>> all(schedules.size());
  std::vector<double> ratios;  // of the second schedule's speed to the first's, by round
  for (int64_t round = 0; round < rounds; ++round) {
    std::vector<double> seconds;
    for (size_t i = 0; i < schedules.size(); ++i) {
      std::vector<std::string> own = overrides;
      own.push_back("layout.schedule=" + schedules[i]);
      const auto measured = measure(bench::config_of(folder, vocabulary, own), steps);
      seconds.push_back(quartiles_of(measured, [](const Measured& one) { return one.whole; }).middle);
      all[i].insert(all[i].end(), measured.begin(), measured.end());
    }
    ratios.push_back(seconds[0] / seconds[1]);
  }
  fmt::print("| schedule | list allows, s | list took, s | allowed / took | whole step, s | allowed / whole step |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- |\n");
  for (size_t i = 0; i < schedules.size(); ++i) {
    fmt::print("| {} | {:.4f} | {:.4f} | {} | {:.4f} | {} |\n", schedules[i],
               quartiles_of(all[i], [](const Measured& one) { return one.ideal; }).middle,
               quartiles_of(all[i], [](const Measured& one) { return one.list; }).middle,
               shown(quartiles_of(all[i], [](const Measured& one) { return one.ideal / one.list; })),
               quartiles_of(all[i], [](const Measured& one) { return one.whole; }).middle,
               shown(quartiles_of(all[i], [](const Measured& one) { return one.ideal / one.whole; })));
  }
  fmt::print("\n{} steps as fast as {}: {} times\n", schedules[1], schedules[0], shown(bench::quartiles(ratios)));
  return 0;
}
