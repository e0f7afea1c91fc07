// Compares sends, bytes and memory of pipeline stages with docs/schedules.md and docs/sharding.md, to the byte.
#include <gtest/gtest.h>

#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

struct PipelineCase {
  Layout layout;
  int64_t stages, chunks, tensor, data;
  bool vee = false, sequence = false;
  int64_t weight_ranks = 1, gradient_ranks = 1, optimizer_ranks = 1;  // W, G, O
};

const Training training = {.model = "cut_llama_deep", .micro_batch = 3, .deterministic = false};

std::vector<PipelineCase> pipeline_cases() {
  const std::string sequence = "sequence_parallel=true";
  return {
      {{2, {"pipeline=2"}}, 2, 1, 1, 1},
      {{4, {"pipeline=4", "schedule=zb-h1"}}, 4, 1, 1, 1},
      {{4, {"pipeline=2", "schedule=interleaved", "chunks=2", "sharding=zero1"}}, 2, 2, 1, 2, false, false, 1, 1, 2},
      {{4, {"pipeline=2", "schedule=zb-v", "chunks=2", "sharding=zero3"}}, 2, 2, 1, 2, true, false, 2, 2, 2},
      {{8, {"pipeline=2", "schedule=gpipe", "tensor=2", sequence, "sharding=zero2"}}, 2, 1, 2, 2, false, true, 1, 2, 2},
  };
}

schedule::Placement placement_of(const PipelineCase& c) {
  return {c.stages, c.chunks, c.vee ? schedule::Placement::Shape::vee : schedule::Placement::Shape::loops};
}

// The stage of a rank in the default order of axes.
int64_t stage_of(const PipelineCase& c, int64_t rank) { return rank / (c.data * c.tensor); }

TEST(PipelineTraffic, HiddenStatePerMicroBatchAndBoundary) {
  for (const PipelineCase& c : pipeline_cases()) {
    SCOPED_TRACE(c.layout.name());
    const Outcome outcome = train(training, c.layout);
    const schedule::Placement placed = placement_of(c);
    const int64_t micro_batches = training.sequences / c.data / training.micro_batch;
    const int64_t hidden =
        training.micro_batch * small_sequence * small_config(training.model).width * 4 / (c.sequence ? c.tensor : 1);
    for (int64_t rank = 0; rank < c.layout.ranks; ++rank) {
      const int64_t stage = stage_of(c, rank);
      int64_t sent = 0;  // tensors of a micro-batch: activations to the next stage and gradients to the previous one
      for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
        const int64_t own = placed.virtual_stage(stage, chunk);
        sent += static_cast<int64_t>(own + 1 < placed.virtual_stages() && placed.stage_of(own + 1) != stage);
        sent += static_cast<int64_t>(own > 0 && placed.stage_of(own - 1) != stage);
      }
      const comm::Traffic& traffic = outcome.traffic[rank].at("pipeline").at(comm::Kind::send);
      EXPECT_EQ(traffic.calls, sent * micro_batches) << "rank " << rank;
      EXPECT_EQ(traffic.bytes, sent * micro_batches * hidden) << "rank " << rank;
    }
  }
}

// Weights, gradients and optimizer states that a rank holds are those of the stage's segments only.
TEST(PipelineMemory, EqualsThatOfTheStagesSegments) {
  for (const PipelineCase& c : pipeline_cases()) {
    SCOPED_TRACE(c.layout.name());
    const Outcome outcome = train(training, c.layout);
    const schedule::UnitTable table = small_table(training);
    const schedule::Partition split = schedule::partition(table, c.stages * c.chunks, {});
    const schedule::Placement placed = placement_of(c);
    for (int64_t rank = 0; rank < c.layout.ranks; ++rank) {
      int64_t elements = 0;
      for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
        const schedule::NumberRange& own = split.virtual_stage(placed.virtual_stage(stage_of(c, rank), chunk));
        for (int64_t number = own.begin; number < own.end; ++number) {
          int64_t flat = 0;
          for (const auto& parameter : schedule::segment_parameters(table, split.segment(number))) {
            flat += (schedule::elements_on_rank(parameter.mark, c.tensor) + 31) / 32 * 32;
          }
          const int64_t piece = c.data * 1024;
          elements += (flat + piece - 1) / piece * piece;
        }
      }
      EXPECT_EQ(outcome.peak_bytes[rank].weights, elements / c.weight_ranks * 4) << "rank " << rank;
      EXPECT_EQ(outcome.peak_bytes[rank].gradients, elements / c.gradient_ranks * 4) << "rank " << rank;
      EXPECT_EQ(outcome.optimizer_bytes[rank], elements / c.optimizer_ranks * 8) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
