// The pipeline schedules as pure functions: the lists of all stages, the placement of the virtual stages, how many
// activations are alive at most, and how long stages idle. docs/schedules.md has pictures of the schedules.
//
// GPipe: Huang et al. 2019, arXiv 1811.06965. 1F1B and interleaved 1F1B: Narayanan et al. 2021, arXiv 2104.04473.
// ZB-H1 and the split of backward into B and W: Qi et al. 2024, arXiv 2401.10241. ZB-V and the placement in the
// shape of a V: the same paper and Qi et al. 2024, arXiv 2405.15362. The papers can also step before the norm
// of all gradients is known, and roll back. Here the ranks of a pipeline wait for the norm, so the formulas include
// the idle time at both ends of the step.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/schedule/pipeline/live.h"
#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/pipeline/posting.h"
#include "terrace/schedule/step/instruction.h"

namespace terrace::schedule {

struct Pipeline {
  config::PipelineSchedule schedule = config::PipelineSchedule::one_f_one_b;
  int64_t stages = 1;
  int64_t micro_batches = 1;
  int64_t chunks = 1;  // per stage
};

// The pipeline that the layout describes.
Pipeline pipeline_of(const config::LayoutConfig& layout, int64_t micro_batches);

// Why the schedule does not allow these numbers, with a valid alternative; "" if it allows them. Any numbers of stages
// and micro-batches are allowed: fewer micro-batches than stages and, for interleaved, numbers that are no multiple of
// the stages.
std::string refusal(const Pipeline& pipeline);

// This function and all below need a pipeline that refusal() does not refuse.
Placement placement(const Pipeline& pipeline);

// The list of each stage. In every chunk, forwards, input gradients and weight gradients come in ascending order of
// the micro-batches, so that sums over micro-batches have the same bits in every schedule. Lists of the two postings
// differ in the places of their receives alone.
std::vector<Instructions> instructions(const Pipeline& pipeline, Posting posting = Posting::early);

// The most that the stage holds at once; the lists of instructions() stay within this bound.
Live live_bound(const Pipeline& pipeline, int64_t stage);
std::vector<Live> live_bounds(const Pipeline& pipeline);  // of every stage

// Seconds of one chunk for one micro-batch, on a balanced model.
struct ChunkCosts {
  double forward = 1.0, input_gradient = 1.0, weight_gradient = 1.0;
};

// Seconds that a stage idles in a step, by the schedule's formula. The formulas assume that transfers take no time and
// that there are enough micro-batches: as many as stages; for interleaved a multiple of the stages; for ZB-V at least
// 2 * stages - 2. The formula of ZB-H1 assumes that weight_gradient exceeds neither forward nor input_gradient, the
// formula of ZB-V three equal costs. simulate_pipeline() covers all other cases.
double bubble_seconds(const Pipeline& pipeline, const ChunkCosts& costs);
// The bubble as a share of the step.
double bubble_share(const Pipeline& pipeline, const ChunkCosts& costs);

}  // namespace terrace::schedule
