// Reads the keys `when` of a study, and refuses conditions that can never hold or say nothing.
#include "terrace/search/study/study_conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

using testing::HasSubstr;

const std::string schedule =
    "[parameters.layout.schedule]\ntype = \"categorical\"\nvalues = [\"1f1b\", \"interleaved\"]\n";
const std::string rate = "[parameters.optimizer.learning_rate]\ntype = \"real\"\nrange = [1e-5, 1e-2]\n";

std::string chunks(const std::string& when) {
  return "[parameters.layout.chunks]\ntype = \"ordered\"\nvalues = [2, 4]\n" + when;
}

class Conditions : public testing::Test {
 protected:
  Study study(const std::string& rest) const { return parse_study(search_table(config_) + rest, "space.toml"); }
  std::string refusal(const std::string& rest, const std::string& more = "") const {
    try {
      parse_study(search_table(config_, more) + rest, "space.toml");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  ScratchFolder folder_;
  std::string config_ = write_small_config(folder_);
};

TEST_F(Conditions, EveryFormOfTomlIsRead) {
  for (const char* when :
       {"when = { \"layout.schedule\" = \"interleaved\" }\n", "when.layout.schedule = \"interleaved\"\n",
        "when = { layout.schedule = [\"interleaved\"] }\n",
        "[parameters.layout.chunks.when]\nlayout.schedule = \"interleaved\"\n",
        "[parameters.layout.chunks.when.layout]\nschedule = \"interleaved\"\n"}) {
    const Study read = study(schedule + chunks(when));
    ASSERT_EQ(read.space.parameters()[0].name, "layout.chunks");
    const std::vector<Condition>& conditions = read.space.parameters()[0].when;
    ASSERT_EQ(conditions.size(), 1) << when;
    EXPECT_EQ(conditions[0].parameter, "layout.schedule");
    EXPECT_EQ(conditions[0].values, std::vector<Value>{"interleaved"});
    EXPECT_EQ(read.space.grid_size(), 3);
  }
}

TEST_F(Conditions, IntegersAndNamesUsedByConditionsOnly) {
  const Study read = study(
      "[parameters.tuned]\ntype = \"categorical\"\nvalues = [true, false]\n"
      "[parameters.layout.tensor]\ntype = \"integer\"\nrange = [1, 4]\nwhen.tuned = true\n"
      "[parameters.layout.pipeline]\ntype = \"integer\"\nrange = [1, 2]\nwhen.layout.tensor = [2, 3]\n");
  EXPECT_EQ(read.space.grid_size(), 1 + 2 + 2 * 2);
}

TEST_F(Conditions, RefusesAllThatNameNoValueOfAnotherParameter) {
  EXPECT_EQ(
      refusal(schedule + chunks("when = { \"layout.schedule\" = [\"gpipe\", \"interleaved\"], layout.shedule = 1 }\n") +
              "[parameters.layout.tensor]\ntype = \"integer\"\nrange = [1, 4]\n"
              "when = { optimizer.learning_rate = 1e-3, layout.tensor = 2, layout.chunks = 3 }\n" +
              rate +
              "[parameters.layout.pipeline]\ntype = \"integer\"\nrange = [1, 2]\nwhen.layout.tensor = 5\n"
              "[parameters.layout.sharding]\ntype = \"categorical\"\nvalues = [\"ddp\"]\nwhen = \"layout.tensor\"\n"),
      "7 problems in space.toml:\n"
      "  space.toml:13:30: parameters.layout.chunks.when has layout.schedule = \"gpipe\", which is no value of that "
      "parameter; use \"1f1b\" or \"interleaved\"\n"
      "  space.toml:13:73: parameters.layout.chunks.when names layout.shedule, which is no parameter of this file; did "
      "you mean layout.schedule?\n"
      "  space.toml:17:36: parameters.layout.tensor.when names optimizer.learning_rate, which is real, but a condition "
      "needs a parameter with values or an integer; use layout.chunks, layout.pipeline, layout.schedule or "
      "layout.sharding\n"
      "  space.toml:17:58: parameters.layout.tensor.when names layout.tensor itself; name another parameter\n"
      "  space.toml:17:77: parameters.layout.tensor.when has layout.chunks = 3, which is no value of that parameter; "
      "use 2 or 4\n"
      "  space.toml:24:22: parameters.layout.pipeline.when has layout.tensor = 5, which is no value of that parameter; "
      "use a whole number from 1 to 4\n"
      "  space.toml:28:8: parameters.layout.sharding.when = \"layout.tensor\" must name a parameter and its value, as "
      "in when = { \"layout.schedule\" = \"interleaved\" }");
}

TEST_F(Conditions, RefusesNoValueAndRepeatedValues) {
  EXPECT_THAT(refusal(schedule + chunks("when = {}\n")), HasSubstr("when is empty; name a parameter and its value"));
  EXPECT_THAT(refusal(schedule + chunks("when.layout.schedule = []\n")),
              HasSubstr("has layout.schedule = [], which is empty, so the parameter would never exist; add a value"));
  EXPECT_THAT(refusal(schedule + chunks("when.layout.schedule = [\"1f1b\", \"1f1b\"]\n")),
              HasSubstr("has \"1f1b\" twice; remove one"));
  EXPECT_THAT(refusal(schedule + chunks("when = { layout.schedule = \"1f1b\", \"layout.schedule\" = \"1f1b\" }\n")),
              HasSubstr("which is given twice; keep one"));
}

TEST_F(Conditions, NoFurtherProblemForARefusedParameter) {
  EXPECT_EQ(refusal("[parameters.layout.schedule]\ntype = \"categorical\"\nvalues = []\n" +
                    chunks("when.layout.schedule = \"interleaved\"\n")),
            "space.toml:9:10: parameters.layout.schedule.values = [] is empty, so the parameter has no value; add one");
}

TEST_F(Conditions, RefusesCycles) {
  const auto ring = [](const std::string& name, const std::string& needed) {
    return "[parameters.layout." + name + "]\ntype = \"integer\"\nrange = [1, 2]\nwhen.layout." + needed + " = 1\n";
  };
  const std::string text = refusal(ring("tensor", "pipeline") + ring("pipeline", "chunks") + ring("chunks", "tensor") +
                                   ring("micro", "tensor"));
  EXPECT_THAT(text, HasSubstr("parameters.layout.tensor.when leads back to itself: layout.tensor needs layout.pipeline "
                              "needs layout.chunks needs layout.tensor; remove one of these conditions"));
  EXPECT_THAT(text, HasSubstr("parameters.layout.chunks.when leads back to itself"));
  EXPECT_THAT(text, testing::Not(HasSubstr("parameters.layout.micro.when leads")));
}

TEST_F(Conditions, RefusesContradictions) {
  EXPECT_THAT(refusal(schedule + chunks("when.layout.schedule = \"interleaved\"\n") +
                      "[parameters.layout.tensor]\ntype = \"integer\"\nrange = [1, 4]\n"
                      "when = { layout.chunks = 2, layout.schedule = \"1f1b\" }\n"),
              HasSubstr("parameters.layout.tensor.when never holds: the conditions of layout.tensor and of the "
                        "parameters that it names leave no value of layout.schedule; change one of them"));
}

TEST_F(Conditions, RefusesConditionsOnWhatEveryTrialNeeds) {
  const std::string text =
      "[search]\nevaluator = \"simulate\"\nobjective = \"step_seconds\"\nconfig = \"" + config_ +
      "\"\nmachine = \"{gpu}\"\ndevices = \"2 * ranks\"\n" + schedule +
      "[parameters.ranks]\ntype = \"integer\"\nrange = [1, 4]\nwhen.layout.schedule = \"1f1b\"\n"
      "[parameters.gpu]\ntype = \"categorical\"\nvalues = [\"frontier\"]\nwhen.layout.schedule = \"1f1b\"\n";
  try {
    parse_study(text, "space.toml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("space.toml:6:11: devices exists only under a condition, by when of it or of a "
                          "parameter that it names, but every trial needs it; use parameters without when"));
    EXPECT_THAT(error.what(), HasSubstr("gpu exists only under a condition"));
  }
}

TEST_F(Conditions, CountPointsForConstraintsWithoutWhatDoesNotExist) {
  EXPECT_THAT(refusal(schedule + chunks("when.layout.schedule = \"interleaved\"\n"),
                      "constraints = [\"layout.chunks > 4\", \"layout.chunks < 2\"]\n"),
              "")
      << "1f1b has no chunks";
  EXPECT_THAT(refusal(schedule + chunks("when.layout.schedule = \"interleaved\"\n"), "constraints = [\"1 > 2\"]\n"),
              HasSubstr("none of 3 points holds all of them"));
}

}  // namespace
}  // namespace terrace::search
