// The seconds of every instruction of a step on a machine, and the list of a stage as a program executes it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/time/collective.h"
#include "terrace/plan/time/movement_time.h"
#include "terrace/plan/time/unit_time.h"
#include "terrace/schedule/step/step_times.h"

namespace terrace::plan {

// The list of one stage for so many micro-batches. Updated weights are published at its beginning, when the step before
// has just ended. A program that overlaps less waits for movements where it starts them: one that does not reduce while
// it computes waits for the reductions of each micro-batch's gradients at once, and for those of the step behind the
// last backward.
schedule::StepInstructions planned_list(const PlannedRun& run, const schedule::Instructions& stage,
                                        int64_t micro_batches, int64_t number, const machine::Software& software);

// Whether the instruction is a transfer, which takes time on a link and not on the device.
bool is_transfer(schedule::StepInstruction::Kind kind);

class PredictedCosts {
 public:
  PredictedCosts(const PlannedRun& run, const machine::Machine& machine, const machine::Software& software,
                 BlockProducts block_products = BlockProducts::as_run);

  double seconds(int64_t stage, const schedule::StepInstruction& instruction) const;
  // Seconds in an evaluation, where the loss is computed without gradients.
  double evaluation_seconds(int64_t stage, const schedule::StepInstruction& instruction) const;
  // The part of a computation's seconds for which the device computes: without the calls among tensor and context ranks
  // that it waits for, and without sends. 0 of all other instructions.
  double computing_seconds(const schedule::StepInstruction& instruction) const;
  // The seconds of a send, also where it holds up the stage.
  double send_seconds(int64_t stage, const schedule::StepInstruction& instruction) const {
    return send(stage, instruction).seconds;
  }
  // The tier whose links a movement or send uses.
  int64_t link(int64_t stage, const schedule::StepInstruction& instruction) const;
  int64_t num_links() const;
  // The bytes that one rank sends for a movement or send, and those that it sends in a step in all collectives of the
  // tensor ranks.
  double bytes(int64_t stage, const schedule::StepInstruction& instruction) const;
  double tensor_bytes(int64_t stage) const;
  int64_t tensor_tier() const;
  // The bytes that a rank sends in a step in all transfers of the context ranks, and their tier.
  double context_bytes(int64_t stage) const;
  int64_t context_tier() const;
  // The bytes that a rank sends in a step in all exchanges of the expert ranks, and their tier.
  double expert_bytes(int64_t stage) const;
  int64_t expert_tier() const;

  // The forward of one chunk for one micro-batch, with its backward if that is asked for.
  double chunk_seconds(int64_t stage, int64_t chunk, bool with_backward) const;

  // The computation of a stage in one step.
  PassTime computation(int64_t stage) const;
  double update_seconds(int64_t stage) const { return update_.at(static_cast<size_t>(stage)); }

 private:
  struct SegmentTime {
    UnitTime time;  // of all units
    // Seconds, with sends that hold up the stage.
    double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
  };

  MovementTime movement(const schedule::StepInstruction& instruction) const;
  MovementTime send(int64_t stage, const schedule::StepInstruction& instruction) const;
  void time_segments();
  void add_pauses();
  void add_gradient_copies();
  void time_movements();
  int64_t largest_output() const;
  double transfer_seconds(schedule::ContextTransfer::Kind kind, double bytes) const;
  // The sum of the function over the stage's units in a step; it is given a unit's operations and how much of its
  // forward is computed again.
  double unit_bytes(int64_t stage,
                    const std::function<double(const schedule::Operations&, config::Recompute)>& bytes) const;
  void time_sends();
  void time_stages();
  // Seconds of adding the gradients of a micro-batch, which are cut, to those before.
  double adding_seconds(const schedule::StepInstruction& instruction) const;

  const PlannedRun& run_;
  const machine::Machine machine_;  // for_job() of the run's ranks
  const machine::Software& software_;
  const BlockProducts block_products_;
  std::vector<Algorithm> algorithms_;
  GroupPlace tensor_, context_, experts_;
  std::vector<SegmentTime> segments_;
  std::vector<std::vector<MovementTime>> movements_;  // by movement and hop, and by segment
  std::vector<std::vector<MovementTime>> sends_;      // by stage and peer
  std::vector<double> norm_, update_, finish_;        // by stage
};

}  // namespace terrace::plan
