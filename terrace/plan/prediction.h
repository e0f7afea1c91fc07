// Predicts what a run needs and how long its steps take on a machine, from the lists of instructions that the trainer
// executes. Nothing is measured and nothing is launched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/memory/communicators.h"
#include "terrace/plan/memory/node_memory.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"
#include "terrace/plan/time/simulated_step.h"
#include "terrace/plan/time/unit_time.h"

namespace terrace::plan {

// Communication that the computation of a rank waits for in a step, by the group's name in docs/cost_model.md. Both
// times have those of encoding and decoding.
struct ExposedTime {
  std::string group;
  double seconds = 0;         // waited for
  double moving_seconds = 0;  // of all calls, hidden ones included
  double sent_bytes = 0;      // by one rank, in all calls
};

struct StagePrediction {
  StageMemory memory;
  CommunicatorCount communicators = {};  // of its first rank
  // Memory of these communicators, beside that of tensors; 0 where the machine does not state that of one.
  double communicator_bytes = 0;
  int64_t parameters = 0;  // elements on one rank before sharding
  // Layers that backward computes again, in whole or their attention, and layers that it could compute again.
  int64_t recomputed_layers = 0, recomputable_layers = 0;
  double saved_bytes = 0;         // that one rank writes into a checkpoint
  double local_copies_bytes = 0;  // of these, all ranks of the stage together, of copies with steps by themselves
  // The whole weights of one segment on one rank, as a gather makes them: the most of a layer and of other segments.
  int64_t layer_weights_bytes = 0, other_weights_bytes = 0;
  // The bytes that a rank sends once a step to sum gradients of which each tensor rank has a share, on average over the
  // ranks that divide them.
  double shares_bytes = 0;
  PassTime computation;  // of a step
  double update_seconds = 0;
  // The seconds of waiting for other stages: the bubble of the pipeline, and transfers between stages that share links
  // with other calls, as schedule::StageTimes divides them.
  double bubble_seconds = 0, queued_seconds = 0;
  double slowed_seconds = 0;  // that computation takes longer beside calls, in addition to `computation`
  std::vector<ExposedTime> exposed = {};

  double waiting_seconds() const { return bubble_seconds + queued_seconds; }
  // Bytes of tensors and communicators, which must fit the device beside what it reserves.
  double needed_bytes() const { return memory.total() + communicator_bytes; }
};

struct Prediction {
  std::string reason;  // why the run is not feasible; "" if it is

  int64_t parameters = 0;         // of the model
  int64_t active_parameters = 0;  // that a token uses
  double model_flops = 0;         // of a step on all ranks: forward and backward, as MFU counts them
  double hardware_flops = 0;      // model_flops and what recompute repeats
  int64_t micro_batches = 1;      // of a step on each data-parallel rank
  int64_t samples = 0;            // of a step
  int64_t items = 0;              // such as tokens, of a step
  double peak_flops = 0;          // of all devices together

  double step_seconds = 0;
  // The parts of the stages' time that wait for other stages, see StagePrediction.
  double bubble_share = 0, queued_share = 0;
  std::vector<StagePrediction> stages;
  int64_t slowest = 0;  // the stage that computes longest
  NodeMemory node = {};
  double rank_overhead_bytes = 0;  // of its node's memory, beside tensors (memory/rank_overhead.h)

  bool feasible() const { return reason.empty(); }
  // The stage that needs most memory.
  const StagePrediction& fullest() const;
  double items_per_second() const { return static_cast<double>(items) / step_seconds; }
  double mfu() const { return model_flops / step_seconds / peak_flops; }
  double hfu() const { return hardware_flops / step_seconds / peak_flops; }
};

// The parts of the configuration's run as the program divides it. Throws UserError as check_target() does, or if the
// configuration does not fit the ranks.
PlannedRun planned_run(const config::Config& config, const Target& target);
// The run with the route and the gathers between nodes that are fastest on the target, if the configuration does not
// give one and the software has more than one, and with the fewest layers recomputed that fit the target's devices if
// layout.recompute_layers is "fit".
PlannedRun on_target(PlannedRun run, const Target& target);

// A run that needs more memory than a device has is predicted all the same, with a reason. Throws as planned_run does.
Prediction predict(const config::Config& config, const Target& target);
Prediction predict(const PlannedRun& run, const Target& target);
Prediction predict(const SimulatedStep& step);

}  // namespace terrace::plan
