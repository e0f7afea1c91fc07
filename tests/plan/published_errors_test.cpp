// Compares summaries of errors and the intervals that follow with values worked out by hand.
#include "terrace/plan/report/published_errors.h"

#include <gtest/gtest.h>

#include <map>

#include "terrace/base/error.h"
#include "terrace/plan/report/plan_page.h"
#include "terrace/plan/report/plan_report.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

std::string kind_on(int64_t devices, int64_t tensor, int64_t pipeline, config::Sharding sharding) {
  config::Config config = small_gpt(4, 32, 8);
  config.layout.tensor = tensor;
  config.layout.pipeline = pipeline;
  config.layout.sharding = sharding;
  return layout_kind(config, {.machine = small_machine(), .software = {}, .devices = devices});
}

// Nodes have four devices.
TEST(LayoutKind, FirstThatHolds) {
  using config::Sharding;
  EXPECT_EQ(kind_on(4, 1, 1, Sharding::ddp), "one stage in one node");
  EXPECT_EQ(kind_on(4, 4, 1, Sharding::ddp), "one stage in one node");
  EXPECT_EQ(kind_on(8, 2, 1, Sharding::zero1), "one stage over nodes");
  EXPECT_EQ(kind_on(4, 1, 2, Sharding::zero1), "pipeline in one node");
  EXPECT_EQ(kind_on(8, 4, 2, Sharding::ddp), "pipeline over nodes");
  EXPECT_EQ(kind_on(8, 8, 1, Sharding::ddp), "tensor over nodes");
  EXPECT_EQ(kind_on(4, 1, 1, Sharding::zero3), "weights cut");
}

ComparedRun run_of(const std::string& kind, double error, int64_t devices) {
  return {.kind = kind,
          .family = "gpt",
          .machine = "small",
          .program = "p",
          .devices = devices,
          .parameters = 100 * devices,
          .error = error};
}

TEST(PublishedErrors, ExtremesOfFewRunsAndPercentilesOfMany) {
  std::vector<ComparedRun> runs = {run_of("few", 0.1, 2), run_of("few", -0.25, 8)};
  for (int i = 0; i < 40; ++i) runs.push_back(run_of("many", 0.01 * i, 4));
  const std::vector<PublishedErrors> errors = summarize(runs);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].kind, "few");
  EXPECT_EQ(errors[0].runs, 2);
  EXPECT_EQ(errors[0].lowest, -0.25);
  EXPECT_EQ(errors[0].highest, 0.1);
  EXPECT_EQ(errors[0].most_devices, 8);
  EXPECT_EQ(errors[0].fewest_parameters, 200);
  EXPECT_EQ(errors[0].most_parameters, 800);
  // The second and the 38th of 40.
  EXPECT_EQ(errors[1].lowest, 0.01);
  EXPECT_EQ(errors[1].highest, 0.37);
  EXPECT_EQ(read_published_errors(json_of(errors).dump()), errors);
}

ComparedRun grown(double error, int64_t devices, const std::string& layout = "tensor 1") {
  ComparedRun run = run_of("k", error, devices);
  run.parameters = 100;
  run.layout = layout;
  return run;
}

// Pairs that differ in their devices are 1.2/0.8, 1.2/1 and 1/0.8 apart; the run with the error of 0.9 has another
// layout or as many devices as another one.
TEST(PublishedErrors, RatiosOfRunsThatDifferInTheirDevicesAlone) {
  const std::vector<ComparedRun> runs = {grown(0.2, 2), grown(-0.2, 4), grown(0, 8)};
  EXPECT_EQ(summarize(runs).front().ratio_error, 0.5);
  std::vector<ComparedRun> more = runs;
  more.push_back(grown(0.9, 16, "tensor 2"));
  EXPECT_EQ(summarize(more).front().ratio_error, 0.5);
  EXPECT_EQ(summarize({grown(0.9, 2), grown(0, 2)}).front().ratio_error, 0);
  EXPECT_EQ(summarize({grown(0.9, 2), grown(0, 2)}).front().median_difference, 0.9);
  EXPECT_EQ(summarize({run_of("k", 0.2, 2), run_of("k", -0.2, 4)}).front().ratio_error, 0) << "of two models";
  // Ten runs with the errors 0, 0.01 .. 0.09 are 45 pairs, of which 10 - d differ by d%. The 40th to 42nd by
  // size differ by 7%, and their smaller errors are 0.02, 0.01 and 0: the 41st is 0.07 / 1.01.
  std::vector<ComparedRun> ten;
  for (int i = 0; i < 10; ++i) ten.push_back(grown(0.01 * i, 1 + i));
  EXPECT_EQ(summarize(ten).front().ratio_error, 0.069);
}

TEST(RatioInterval, SharesErrorsWithinAKindAndHasThoseOfTwoKindsInFull) {
  const StepInterval base{.errors = {.kind = "a", .lowest = -0.2, .highest = 0.25, .ratio_error = 0.1}};
  StepInterval of = base;
  const RatioInterval same = *ratio_interval(of, base);
  EXPECT_TRUE(same.shares_errors);
  EXPECT_DOUBLE_EQ(same.lowest, 1 / 1.1);
  EXPECT_DOUBLE_EQ(same.highest, 1.1);
  of.errors = {.kind = "b", .lowest = -0.1, .highest = 0.05, .ratio_error = 0.02};
  const RatioInterval other = *ratio_interval(of, base);
  EXPECT_FALSE(other.shares_errors);
  EXPECT_DOUBLE_EQ(other.lowest, 0.8 / 1.05);
  EXPECT_DOUBLE_EQ(other.highest, 1.25 / 0.9);
  of.outside = {"no run"};
  EXPECT_FALSE(ratio_interval(of, base));
  EXPECT_FALSE(ratio_interval(base, of));
}

TEST(PublishedErrors, RefusesOtherText) {
  EXPECT_THROW(read_published_errors("[{\"kind\": 1}]"), UserError);
  EXPECT_THROW(read_published_errors("errors"), UserError);
}

// The built-in file has these errors; house.plan_errors says that the benchmark writes them.
TEST(PublishedErrors, BuiltInOnesHaveEveryKindOnce) {
  std::map<std::string, int> kinds;
  for (const PublishedErrors& one : published_errors()) {
    ++kinds[one.kind];
    EXPECT_GT(one.runs, 0);
    EXPECT_LE(one.lowest, one.highest);
    EXPECT_GT(one.lowest, -1);
  }
  for (const char* kind : {"one stage in one node", "one stage over nodes", "pipeline in one node",
                           "pipeline over nodes", "tensor over nodes", "weights cut"}) {
    EXPECT_EQ(kinds[kind], 1) << kind;
  }
}

PublishedErrors errors_of_small() {
  return {.kind = "one stage in one node",
          .runs = 5,
          .lowest = -0.2,
          .highest = 0.25,
          .most_devices = 4,
          .fewest_parameters = 1000,
          .most_parameters = 1'000'000,
          .families = {"gpt"},
          .machines = {"small"},
          .programs = {"p", "q"}};
}

// A prediction 25% above and 20% below what is measured.
TEST(StepInterval, DividesTheStepByTheErrors) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 4};
  Prediction prediction = predict(small_gpt(2), target);
  prediction.step_seconds = 10;
  const StepInterval interval = step_interval(small_gpt(2), prediction, target, {errors_of_small()});
  ASSERT_TRUE(interval.outside.empty()) << text_of(interval);
  EXPECT_DOUBLE_EQ(interval.shortest_seconds, 8);
  EXPECT_DOUBLE_EQ(interval.longest_seconds, 12.5);
  EXPECT_EQ(text_of(interval),
            "8.00 s to 12.5 s if it errs as for 5 published runs of p, q (one stage in one node; errors of -20% to "
            "+25%)");
  const Json json = json_of(interval);
  EXPECT_EQ(json["shortest_seconds"], 8);
  EXPECT_EQ(json["runs"], 5);
}

TEST(StepInterval, TakesTheErrorsOfTheMachineBeforePublishedOnes) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  target.machine.errors = {errors_of_small()};
  target.machine.errors.front().lowest = -0.5;
  Prediction prediction = predict(small_gpt(2), target);
  prediction.step_seconds = 10;
  StepInterval interval = step_interval(small_gpt(2), prediction, target, {errors_of_small()});
  EXPECT_DOUBLE_EQ(interval.longest_seconds, 20);
  EXPECT_TRUE(interval.of_machine);
  EXPECT_EQ(text_of(interval),
            "8.00 s to 20.0 s if it errs as for 5 measured runs of p, q (one stage in one node; errors of -50% to "
            "+25%)");
  target.machine.errors.front().kind = "weights cut";
  interval = step_interval(small_gpt(2), prediction, target, {errors_of_small()});
  EXPECT_DOUBLE_EQ(interval.longest_seconds, 12.5);
  EXPECT_FALSE(interval.of_machine);
}

TEST(StepInterval, SaysWhatWasNotCompared) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const auto outside = [&](const PublishedErrors& errors) {
    const StepInterval interval = step_interval(small_gpt(2), predict(small_gpt(2), target), target, {errors});
    EXPECT_TRUE(json_of(interval)["shortest_seconds"].is_null());
    return text_of(interval);
  };
  PublishedErrors errors = errors_of_small();
  errors.kind = "weights cut";
  EXPECT_EQ(outside(errors),
            "outside what was compared: no run was compared whose layout is of the kind \"one stage in one node\"");
  errors = errors_of_small();
  errors.machines = {"a", "b"};
  EXPECT_EQ(outside(errors), "outside what was compared: runs of this kind were compared on a, b, not on small");
  errors = errors_of_small();
  errors.most_devices = 2;
  EXPECT_EQ(outside(errors), "outside what was compared: runs of this kind were compared on up to 2 devices, not on 4");
  errors = errors_of_small();
  errors.families = {"vit"};
  EXPECT_EQ(outside(errors), "outside what was compared: runs of this kind were of the family vit, not gpt");
  errors = errors_of_small();
  errors.fewest_parameters = 2'000'000'000;
  errors.most_parameters = 175'000'000'000;
  EXPECT_TRUE(outside(errors).starts_with("outside what was compared: models of this kind had 2B to 175B parameters"));
}

TEST(StepInterval, InTextJsonAndPageOfAPlan) {
  const Plan plan = make_plan(small_gpt(2), {.machine = small_machine(), .software = {}, .devices = 4});
  const std::string text = text_of(plan.interval);
  EXPECT_TRUE(text.starts_with("outside what was compared: ")) << text;
  EXPECT_NE(text_of(plan).find(text + "\n"), std::string::npos);
  EXPECT_EQ(json_of(plan)["interval"]["outside"], plan.interval.outside);
  const observe::PlanStatements said = statements_of(plan, "");
  const std::map<std::string, std::string> facts(said.facts.begin(), said.facts.end());
  EXPECT_EQ(facts.at("step as measured"), text);
}

}  // namespace
}  // namespace terrace::plan
