// Tests how far a prediction is from a measurement, and which category is named when it is far.
#include "terrace/observe/step_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terrace::observe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StepRecord predicted() {
  return {.step_seconds = 1,
          .stages = {{.stage = 0,
                      .seconds = {{"forward", 0.4}, {"backward", 0.6}},
                      .memory_bytes = {{"weights", 100}, {"activations", 60}, {"temporary", 30}, {"slack", 10}}},
                     {.stage = 1, .seconds = {{"forward", 0.3}}, .memory_bytes = {{"weights", 50}}}}};
}

StepRecord measured(double forward, double activations) {
  return {.step_seconds = forward + 0.6,
          .stages = {{.stage = 0,
                      .seconds = {{"forward", forward}, {"backward", 0.6}},
                      .memory_bytes = {{"weights", 100}, {in_step_memory, activations}}},
                     {.stage = 1, .seconds = {{"forward", 0.3}}, .memory_bytes = {{"weights", 50}}}}};
}

TEST(StepComparison, AddsUpWhatMeasuredMemoryDoesNotTellApart) {
  const StepComparison same = compare(predicted(), measured(0.4, 100));
  EXPECT_EQ(same.memory_bytes.predicted, 200);
  EXPECT_EQ(same.memory_bytes.measured, 200);
  EXPECT_EQ(same.memory_bytes.error(), 0);
  EXPECT_DOUBLE_EQ(same.seconds.error(), 0);
  EXPECT_THAT(warnings_of(same), ElementsAre());
}

// Only a prediction divides what a stage waits for other stages.
TEST(StepComparison, AddsUpTheWaitsThatMeasurementsDoNotTellApart) {
  StepRecord divided = predicted(), whole = measured(0.4, 100);
  divided.stages[0].seconds = {{"forward", 0.4}, {bubble_waits, 0.2}, {queued_waits, 0.1}};
  whole.stages[0].seconds = {{"forward", 0.4}, {stage_waits, 0.7}};
  const StepComparison compared = compare(divided, whole);
  EXPECT_EQ(compared.seconds_category, stage_waits);
  EXPECT_DOUBLE_EQ(compared.category_seconds.predicted, 0.3);
  EXPECT_EQ(compared.category_seconds.measured, 0.7);
  EXPECT_THAT(table_of(divided, whole),
              HasSubstr("\n    waits for stages                  300 ms      700 ms   -57.1%\n"));
  whole.stages[0].seconds = {{"forward", 0.4}};
  EXPECT_THAT(table_of(divided, whole), HasSubstr("\n    waits for stages                  300 ms"));
}

TEST(StepComparison, NamesTheCategoryThatIsOff) {
  const StepComparison far = compare(predicted(), measured(1.4, 200));
  EXPECT_EQ(far.seconds_category, "forward");
  EXPECT_EQ(far.memory_category, in_step_memory);
  EXPECT_DOUBLE_EQ(far.seconds.error(), -0.5);
  EXPECT_THAT(warnings_of(far),
              ElementsAre(AllOf(HasSubstr("-50.0%"), HasSubstr("\"forward\" differs most: 400 ms predicted, 1.40 s")),
                          AllOf(HasSubstr("-33.3%"), HasSubstr("100 B predicted, 200 B measured"))));
}

TEST(StepComparison, TableOfPredictedAndMeasured) {
  EXPECT_EQ(table_of(predicted(), measured(0.5, 100)),
            "  a step                           predicted    measured    error\n"
            "  time                                1.00 s      1.10 s    -9.1%\n"
            "    forward                           400 ms      500 ms   -20.0%\n"
            "    backward                          600 ms      600 ms    +0.0%\n"
            "  memory of a rank                     200 B       200 B    +0.0%\n"
            "    weights                            100 B       100 B    +0.0%\n"
            "    activations and temporary          100 B       100 B    +0.0%\n");
}

TEST(StepComparison, WarnsAboveAFifthOnly) {
  EXPECT_TRUE(warnings_of(compare(predicted(), measured(0.6, 100))).empty());   // 17% less than measured
  EXPECT_EQ(warnings_of(compare(predicted(), measured(0.7, 100))).size(), 1u);  // 23%
}

}  // namespace
}  // namespace terrace::observe
