// Computes how long the computations of a step take in a pipeline, one chunk at a time: as simulate_step() of
// step_times.h where no weights are gathered and no gradients reduced between the segments of a chunk and where no two
// communicators share a link, but many times as fast. A planner compares thousands of layouts with it.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/step/times.h"

namespace terrace::schedule {

// One instruction of a pipeline with the numbers under which a simulation knows its stage, chunk and message.
struct OrderedInstruction {
  Instruction::Kind kind;
  bool is_first, is_last;  // of the micro-batches
  int32_t stage;
  int32_t place;    // stage * chunks + chunk
  int32_t message;  // the message that is sent, received or taken; -1: none
  int32_t channel;  // of sends: stage * stages + receiving stage; otherwise -1
};

// The instructions of all stages in an order in which every instruction comes after those whose times it depends on:
// those of one stage in the order of their list, and a computation after the send of the tensor that it takes. The
// order depends on the pipeline alone, so a planner makes it once for all layouts with this pipeline.
struct PipelineOrder {
  explicit PipelineOrder(const Pipeline& pipeline);
  // Takes the lists of instructions(pipeline) that the caller has.
  PipelineOrder(const Pipeline& pipeline, const std::vector<Instructions>& lists);

  Pipeline pipeline;
  int64_t num_messages;
  std::vector<OrderedInstruction> instructions;  // without the optimizer step
};

// Weights that are gathered while the step has begun, as those that the previous step updated: seconds from the step's
// beginning until those of the chunk's first segment and of its last segment have arrived.
struct WeightArrival {
  double first_seconds = 0, last_seconds = 0;
  double last_forward_seconds = 0;  // of the chunk's forward: its last segment
};

// Reductions of a chunk's gradients while the last micro-batch's weight gradients are computed. Those of a stage follow
// each other on a link of their own.
struct GradientReductions {
  double first_seconds = 0;  // from the beginning of that computation until the first gradient is complete
  double all_seconds = 0;    // of all reductions of the chunk, which follow each other
  double last_seconds = 0;   // of the last reduction, which begins when the computation has ended
  // The seconds by which the computation is longer, where each segment waits for the reduction before the last
  // (training_step()).
  double wait_seconds = 0;
};

// The costs of one chunk of a stage for one micro-batch.
struct StageChunkCosts {
  double forward = 0, input_gradient = 0, weight_gradient = 0;  // a backward takes the sum of the gradients
  // The seconds of a send of the chunk's output, and of a send of the gradient of its input. Sends of a stage to the
  // same other stage follow each other. Between two chunks of one stage nothing is sent.
  double send_activation = 0, send_gradient = 0;
  WeightArrival weights = {};
  GradientReductions reductions = {};
};

struct PipelineCosts {
  std::vector<StageChunkCosts> chunks;      // of chunk c of stage s: number s * chunks + c
  std::vector<double> finish_seconds = {};  // by stage: after its last reduction and send, before the norm; {}: none
  bool sends_occupy_stage = false;          // the stage computes nothing while it sends
};

struct PipelineStageTimes {
  // These five sums add up to the seconds of the step.
  double busy_seconds = 0;                   // of computations and finish_seconds
  double weights_seconds = 0;                // of waiting for gathered weights
  double reductions_seconds = 0;             // of waiting for reductions, most of it after the last computation
  double sends_seconds = 0;                  // of sends that occupy the stage
  double idle_seconds = 0;                   // of waiting for other stages
  std::vector<TimeInterval> intervals = {};  // by instruction of the stage's list; of a send: on its link
};

struct PipelineTimes {
  double seconds = 0;  // until the last stage has reached the norm, for which all stages wait
  std::vector<PipelineStageTimes> stages;
};

// Intervals are recorded only if they are asked for.
PipelineTimes simulate_pipeline(const PipelineOrder& order, const PipelineCosts& costs, bool with_intervals = false);

}  // namespace terrace::schedule
