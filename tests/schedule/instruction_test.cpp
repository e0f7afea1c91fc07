// The list of one stage, and every way in which a list can be wrong.
#include "terrace/schedule/instruction.h"

#include <gtest/gtest.h>

namespace terrace::schedule {
namespace {

constexpr auto forward = Instruction::Kind::forward;
constexpr auto backward = Instruction::Kind::backward;
constexpr Instruction step{Instruction::Kind::optimizer_step};

std::string text(const Instructions& list) {
  std::string result;
  for (const Instruction& instruction : list) result += (result.empty() ? "" : " ") + to_string(instruction);
  return result;
}

// F and B of each micro-batch side by side, so the bound of one live micro-batch is met exactly.
TEST(OneStage, IsForwardAndBackwardOfEachMicroBatchThenTheStep) {
  EXPECT_EQ(text(one_stage(1)), "F0 B0 step");
  EXPECT_EQ(text(one_stage(3)), "F0 B0 F1 B1 F2 B2 step");
}

TEST(OneStage, IsValidForOneToSixteenMicroBatches) {
  for (int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
    const Instructions list = one_stage(micro_batches);
    EXPECT_EQ(list.size(), 2 * micro_batches + 1u);
    EXPECT_EQ(validate(list, micro_batches, 1), "");
    EXPECT_NE(validate(list, micro_batches + 1, 1), "");
    if (micro_batches > 1) {
      EXPECT_NE(validate(list, micro_batches - 1, 1), "");
    }
    EXPECT_NE(validate(list, micro_batches, 0), "");
  }
}

TEST(Validator, AcceptsAllForwardsFirstWhereTheBoundAllowsIt) {
  const Instructions list = {{forward, 0},  {forward, 1},  {forward, 2}, {backward, 0},
                             {backward, 1}, {backward, 2}, step};
  EXPECT_EQ(validate(list, 3, 3), "");
  EXPECT_EQ(validate(list, 3, 2), "instruction 2, F2: 3 micro-batches are alive, at most 2 may be");
}

struct BrokenList {
  const char* what;
  Instructions list;
  const char* problem;
};

TEST(Validator, NamesWhatIsWrong) {
  const std::vector<BrokenList> broken = {
      {"empty", {}, "the optimizer step is missing"},
      {"no step", {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}, "the optimizer step is missing"},
      {"missing forward",
       {{forward, 0}, {backward, 0}, {backward, 1}, step},
       "instruction 2, B1: its forward has not been done"},
      {"missing forward and backward",
       {{forward, 0}, {backward, 0}, step},
       "instruction 2, step: F1 has not been done"},
      {"missing backward",
       {{forward, 0}, {backward, 0}, {forward, 1}, step},
       "instruction 3, step: B1 has not been done"},
      {"backward before forward", {{backward, 0}, {forward, 0}}, "instruction 0, B0: its forward has not been done"},
      {"forward twice", {{forward, 0}, {backward, 0}, {forward, 0}}, "instruction 2, F0: its forward was done before"},
      {"backward twice",
       {{forward, 0}, {backward, 0}, {backward, 0}},
       "instruction 2, B0: its backward was done before"},
      {"forwards out of order", {{forward, 1}}, "instruction 0, F1: out of order: F0 has not been done"},
      {"backwards out of order",
       {{forward, 0}, {forward, 1}, {backward, 1}},
       "instruction 2, B1: out of order: B0 has not been done"},
      {"unknown micro-batch",
       {{forward, 0}, {backward, 0}, {forward, 2}},
       "instruction 2, F2: there are 2 micro-batches"},
      {"negative micro-batch", {{backward, -1}}, "instruction 0, B-1: there are 2 micro-batches"},
      {"two steps",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, step, step},
       "instruction 5, step: it comes after the optimizer step"},
      {"step too early",
       {{forward, 0}, {backward, 0}, step, {forward, 1}, {backward, 1}},
       "instruction 2, step: F1 has not been done"},
      {"work after the step",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, step, {forward, 0}},
       "instruction 5, F0: it comes after the optimizer step"},
      {"step of a micro-batch",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, {Instruction::Kind::optimizer_step, 1}},
       "instruction 4, step: it belongs to no micro-batch, but names 1"},
  };
  for (const BrokenList& one : broken) EXPECT_EQ(validate(one.list, 2, 2), one.problem) << one.what;
}

// Whatever single instruction is dropped, doubled or exchanged with its neighbour, the list is no longer valid.
TEST(Validator, CatchesEverySingleChange) {
  const Instructions good = one_stage(4);
  for (size_t i = 0; i < good.size(); ++i) {
    Instructions dropped = good, doubled = good;
    dropped.erase(dropped.begin() + static_cast<ptrdiff_t>(i));
    doubled.insert(doubled.begin() + static_cast<ptrdiff_t>(i), good[i]);
    EXPECT_NE(validate(dropped, 4, 1), "") << "without " << to_string(good[i]);
    EXPECT_NE(validate(doubled, 4, 1), "") << "twice " << to_string(good[i]);
    if (i + 1 < good.size()) {
      Instructions exchanged = good;
      std::swap(exchanged[i], exchanged[i + 1]);
      EXPECT_NE(validate(exchanged, 4, 1), "") << to_string(good[i]) << " behind " << to_string(good[i + 1]);
    }
  }
}

}  // namespace
}  // namespace terrace::schedule
