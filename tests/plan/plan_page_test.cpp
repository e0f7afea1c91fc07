// Tests what the page of a plan says in words, of a run that fits and of one that does not.
#include "terrace/plan/report/plan_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "terrace/base/text/units.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

Plan plan_of(const config::Config& config, double memory_bytes) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  target.machine.device.memory_bytes = memory_bytes;
  target.software.name = "trainer";
  return make_plan(config, target);
}

config::Config on_two_stages() {
  config::Config config = small_gpt(4);
  config.layout.pipeline = 2;
  config.layout.sharding = config::Sharding::zero1;
  config.train.precision = config::Precision::bf16;
  config.train.recompute = config::Recompute::selective;
  return config;
}

TEST(PlanPage, SaysWhatIsPlannedAndThatItFits) {
  const Plan plan = plan_of(on_two_stages(), 1e12);
  const observe::PlanStatements said = statements_of(plan, "terrace plan it");
  EXPECT_TRUE(said.fits);
  EXPECT_TRUE(said.verdict.starts_with("Fits: stage ")) << said.verdict;
  EXPECT_NE(said.verdict.find(format_bytes(plan.prediction.fullest().memory.total()) + " of 931.3 GiB."),
            std::string::npos)
      << said.verdict;
  EXPECT_EQ(said.limit.find("Of the slowest stage, "), 0u) << said.limit;
  EXPECT_NE(said.limit.find(limit(plan.prediction)), std::string::npos) << said.limit;
  EXPECT_EQ(said.command, "terrace plan it");
  const std::map<std::string, std::string> facts(said.facts.begin(), said.facts.end());
  EXPECT_EQ(facts.at("devices"), "4 devices of small");
  EXPECT_EQ(facts.at("layout"), "tensor 1, pipeline 2 (1f1b), data 2, sharding zero1");
  EXPECT_EQ(facts.at("batch"), "8 sequences a step; 4 micro-batches of 1 on each of 2 data-parallel ranks");
  EXPECT_EQ(facts.at("recompute"), "selective");
  EXPECT_EQ(facts.at("precision"), "bf16");
  EXPECT_EQ(facts.at("software"), "trainer");
  ASSERT_EQ(said.changes.size(), plan.changes.size());
  EXPECT_EQ(said.changes.front().gain, plan.changes.front().gain);
  EXPECT_TRUE(said.changes.front().settings.starts_with("--set ")) << said.changes.front().settings;
}

TEST(PlanPage, SaysWhatNoiseCostsWhereTheMachineStatesIt) {
  Plan plan = plan_of(on_two_stages(), 1e12);
  const auto fact = [&] {
    const auto facts = statements_of(plan, "").facts;
    const auto found =
        std::ranges::find(facts, "with the machine's noise", &std::pair<std::string, std::string>::first);
    return found == facts.end() ? "" : found->second;
  };
  EXPECT_EQ(fact(), "");
  EXPECT_EQ(json_of(plan)["noise"], nullptr);
  plan.noise = ExpectedStep{.seconds = 105.2, .costs = {0, 3.2, 1, 1}, .noiseless_seconds = 100};
  const std::string said =
      "1 min 45 s (+5.2%): devices by themselves 0.0%, tensor groups 3.2%, pipeline 1.0%, replicas 1.0%";
  EXPECT_EQ(fact(), said);
  EXPECT_NE(text_of(plan).find("\nwith the machine's noise " + said + "\n"), std::string::npos);
  EXPECT_EQ(json_of(plan)["noise"]["expected_step_seconds"], 105.2);
  EXPECT_EQ(json_of(plan)["noise"]["costs_seconds"]["tensor"], 3.2);
}

// A micro-batch of 0 in the configuration is the whole share of a rank.
TEST(PlanPage, CountsTheSamplesOfAMicroBatchThatTheConfigurationLeavesOpen) {
  config::Config config = small_gpt(4);
  config.train.micro_batch = 0;
  const observe::PlanStatements said = statements_of(plan_of(config, 1e12), "");
  const std::map<std::string, std::string> facts(said.facts.begin(), said.facts.end());
  EXPECT_EQ(facts.at("layout"), "tensor 1, pipeline 1, data 4, sharding ddp");
  EXPECT_EQ(facts.at("batch"), "8 sequences a step; 1 micro-batch of 2 on each of 4 data-parallel ranks");
  EXPECT_EQ(said.limit, limit(predict(config, {.machine = small_machine(), .software = {}, .devices = 4})) + ".");
}

TEST(PlanPage, SaysWhyARunDoesNotFitAndWhatWould) {
  const double needed = plan_of(on_two_stages(), 1e12).prediction.fullest().memory.total();
  const Plan plan = plan_of(on_two_stages(), needed - 1);
  const observe::PlanStatements said = statements_of(plan, "");
  EXPECT_FALSE(said.fits);
  EXPECT_EQ(said.verdict, "Does not fit: " + plan.prediction.reason + ".");
  EXPECT_FALSE(said.changes.empty());
}

TEST(PlanPage, TitleNamesTheConfiguration) {
  const std::string page = plan_page(plan_of(on_two_stages(), 1e12), "configs/mine.toml", "terrace plan mine");
  EXPECT_NE(page.find("<title>configs/mine.toml on 4 devices of small</title>"), std::string::npos);
  EXPECT_NE(page.find("\"command\":\"terrace plan mine\""), std::string::npos);
}

}  // namespace
}  // namespace terrace::plan
