// The list of a single stage, and the text of instructions.
#include "terrace/schedule/step/instruction.h"

#include <gtest/gtest.h>

#include "terrace/schedule/pipeline/pipeline.h"
#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

// F and B of each micro-batch in turn, so that exactly one micro-batch is alive.
Instructions one_stage(int64_t micro_batches) {
  Instructions list;
  for (int64_t i = 0; i < micro_batches; ++i) {
    list.push_back({Kind::forward, i});
    list.push_back({Kind::backward, i});
  }
  list.push_back({Kind::optimizer_step});
  return list;
}

TEST(OneStage, ForwardAndBackwardOfEachMicroBatchThenTheStep) {
  EXPECT_EQ(text(one_stage(1)), "F0 B0 step");
  EXPECT_EQ(text(one_stage(3)), "F0 B0 F1 B1 F2 B2 step");
}

TEST(OneStage, EqualsOneForwardOneBackwardOnOneStage) {
  for (int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
    const Pipeline alone{config::PipelineSchedule::one_f_one_b, 1, micro_batches, 1};
    EXPECT_EQ(instructions(alone), std::vector<Instructions>(1, one_stage(micro_batches)));
  }
}

TEST(Instruction, TextHasMicroBatchChunkAndPeer) {
  EXPECT_EQ(text({{Kind::forward, 3}, {Kind::backward, 3}, {Kind::input_gradient, 3}, {Kind::weight_gradient, 3}}),
            "F3 B3 I3 W3");
  EXPECT_EQ(to_string({Kind::forward, 3, 1}), "F3.1");
  EXPECT_EQ(to_string({Kind::send_activation, 3, 0, 1}), "send activation 3 to 1");
  EXPECT_EQ(to_string({Kind::receive_activation, 3, 2, 1}), "receive activation 3.2 from 1");
  EXPECT_EQ(to_string({Kind::send_gradient, 0, 0, 4}), "send gradient 0 to 4");
  EXPECT_EQ(to_string({Kind::receive_gradient, 0, 0, 4}), "receive gradient 0 from 4");
}

}  // namespace
}  // namespace terrace::schedule
