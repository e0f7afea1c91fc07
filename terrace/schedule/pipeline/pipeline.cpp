// Determines what each schedule allows, where its virtual stages are, its memory bounds and its bubble.
#include "terrace/schedule/pipeline/pipeline.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/config/names.h"
#include "terrace/schedule/pipeline/compute_order.h"
#include "terrace/schedule/step/transfers.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;

void check_not_refused(const Pipeline& pipeline) {
  const std::string reason = refusal(pipeline);
  TERRACE_CHECK(reason.empty(), "{}", reason);
}

// The bound of a schedule that defers no weight gradients.
Live undeferred(int64_t activations) { return {activations, 0, activations}; }

}  // namespace

Pipeline pipeline_of(const config::LayoutConfig& layout, int64_t micro_batches) {
  return {
      .schedule = layout.schedule, .stages = layout.pipeline, .micro_batches = micro_batches, .chunks = layout.chunks};
}

std::string refusal(const Pipeline& pipeline) {
  const auto& [schedule, stages, micro_batches, chunks] = pipeline;
  const std::string_view name = config::name_of(schedule);
  if (stages < 1) return fmt::format("{} stages; use 1 or more", stages);
  if (micro_batches < 1) return fmt::format("{} micro-batches; use 1 or more", micro_batches);
  if (chunks < 1) return fmt::format("{} chunks a stage; use 1 or more", chunks);
  if (schedule == PipelineSchedule::zb_v && chunks != 2) {
    return fmt::format("{} has two chunks a stage, not {}; use 2, or {}", name, chunks,
                       chunks == 1 ? "zb-h1" : "interleaved");
  }
  if (chunks != 1 && schedule != PipelineSchedule::zb_v && schedule != PipelineSchedule::interleaved) {
    return fmt::format("{} has one chunk a stage, not {}; use 1, or interleaved{}", name, chunks,
                       chunks == 2 ? " or zb-v" : "");
  }
  return "";
}

Placement placement(const Pipeline& pipeline) {
  check_not_refused(pipeline);
  const bool vee = pipeline.schedule == PipelineSchedule::zb_v;
  return {pipeline.stages, pipeline.chunks, vee ? Placement::Shape::vee : Placement::Shape::loops};
}

std::vector<Instructions> instructions(const Pipeline& pipeline, Posting posting) {
  const Placement placed = placement(pipeline);
  std::vector<Instructions> computations;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) computations.push_back(compute_order(pipeline, stage));
  return with_transfers(computations, placed, posting);
}

Live live_bound(const Pipeline& pipeline, int64_t stage) {
  check_not_refused(pipeline);
  const int64_t micro_batches = pipeline.micro_batches, stages = pipeline.stages;
  switch (pipeline.schedule) {
    case PipelineSchedule::gpipe:
      return undeferred(micro_batches);
    case PipelineSchedule::one_f_one_b:
      return undeferred(std::min(micro_batches, stages - stage));
    case PipelineSchedule::interleaved:
      return undeferred(std::min(micro_batches * pipeline.chunks, interleaved_warmup(pipeline, stage) + 1));
    case PipelineSchedule::zb_h1:
      return {std::min(micro_batches, stages - stage), std::min(micro_batches, stage + 1),
              std::min(micro_batches, stages)};
    case PipelineSchedule::zb_v: {
      // The inner minimum counts when there are too few micro-batches to fill the pipeline.
      const int64_t together = std::min(2 * stages, std::min(micro_batches + 1 + stage, 2 * micro_batches));
      return {together, std::min(2 * stage + 1, 2 * micro_batches - 1), together};
    }
  }
  TERRACE_CHECK(false, "schedule {}", static_cast<int>(pipeline.schedule));
  return {};
}

std::vector<Live> live_bounds(const Pipeline& pipeline) {
  std::vector<Live> bounds;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) bounds.push_back(live_bound(pipeline, stage));
  return bounds;
}

double bubble_seconds(const Pipeline& pipeline, const ChunkCosts& costs) {
  check_not_refused(pipeline);
  const auto others = static_cast<double>(pipeline.stages - 1);
  switch (pipeline.schedule) {
    case PipelineSchedule::zb_h1:
      return others * (costs.forward + costs.input_gradient - costs.weight_gradient);
    case PipelineSchedule::zb_v:
      return others * costs.forward;
    default:
      return others * (costs.forward + costs.input_gradient + costs.weight_gradient);
  }
}

double bubble_share(const Pipeline& pipeline, const ChunkCosts& costs) {
  const double idle = bubble_seconds(pipeline, costs);
  const double busy = static_cast<double>(pipeline.micro_batches * pipeline.chunks) *
                      (costs.forward + costs.input_gradient + costs.weight_gradient);
  return idle / (idle + busy);
}

}  // namespace terrace::schedule
