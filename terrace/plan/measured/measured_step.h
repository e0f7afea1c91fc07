// A step as its ranks measured it, arranged for analysis: where its time goes, and what another division of the layers
// would save.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/measured/critical_path.h"
#include "terrace/schedule/resolved_layout.h"

namespace terrace::plan {

// The mean seconds of an instruction over the micro-batches of a step, without waits for other ranks. Transfers have
// the seconds for which even the rank waits that comes last.
struct MeasuredInstruction {
  schedule::StepInstruction::Kind kind = schedule::StepInstruction::Kind::forward;
  int64_t segment = -1;  // of the model; -1: of the whole stage
  schedule::Movement movement = schedule::Movement::gather_weights;
  double seconds = 0;

  bool operator==(const MeasuredInstruction&) const = default;
};

// One list of instructions for each stage, those of a rank that stands for it.
using MeasuredStages = std::vector<std::vector<MeasuredInstruction>>;

// A setting with which the next run would be faster.
struct NextRun {
  std::string settings;     // "--set layout.stage_layers=[7,8,8,7]"
  double step_seconds = 0;  // by simulation from the measured times
  double gain = 0;          // share of the simulated present step that it saves

  bool operator==(const NextRun&) const = default;
};

struct StepAnalysis {
  CriticalPath path;               // of the simulated step
  std::vector<NextRun> next = {};  // those that save a hundredth or more, the best first
};

// `table` is that of the configuration, which ran on so many ranks with so many micro-batches on each data-parallel
// rank.
StepAnalysis analysed(const config::Config& config, const schedule::UnitTable& table, int64_t ranks,
                      int64_t ranks_per_node, int64_t micro_batches, const MeasuredStages& measured);

// "dividing the layers 7,8,8,7 would save 6% (--set layout.stage_layers=[7,8,8,7])".
std::string text_of(const NextRun& next);

}  // namespace terrace::plan
