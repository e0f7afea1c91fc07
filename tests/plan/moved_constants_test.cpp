// Moves constants of a machine with round figures: which layout leads then, and which has least to lose.
#include "terrace/plan/layouts/moved_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "terrace/plan/layouts/best.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

using testing::HasSubstr;

// Half as fast, and twice as fast.
const MoveSizes halves{.kind = "a kind", .slower = 0.5, .faster = 2};

config::Config with_layout(int64_t tensor, int64_t pipeline) {
  config::Config config = small_gpt(4, 48, 4);
  config.layout.tensor = tensor;
  config.layout.pipeline = pipeline;
  return config;
}

RankedLayout ranked(const std::string& name, const config::Config& config, const Target& target) {
  return {.change = {.settings = {name}, .config = config, .prediction = predict(config, target)}};
}

// The two devices of a pair.
Target pair_target(double link_bandwidth) {
  Target target{.machine = computing_machine(), .software = {}, .devices = 2};
  target.machine.tiers[0].link_bandwidth = link_bandwidth;
  return target;
}

TEST(MoveSizes, AreTheErrorsOfTheKind) {
  const std::vector<PublishedErrors> errors = {{.kind = "slow", .lowest = -0.2, .highest = 0.05},
                                               {.kind = "fast", .lowest = 0.1, .highest = 0.3}};
  const MoveSizes sizes = move_sizes("slow", errors);
  EXPECT_DOUBLE_EQ(sizes.slower, 0.8);
  EXPECT_DOUBLE_EQ(sizes.faster, 1.05);
  EXPECT_DOUBLE_EQ(sizes.reach(), 1.25);
  EXPECT_EQ(move_sizes("fast", errors).slower, 1) << "no run was faster than predicted";
  EXPECT_DOUBLE_EQ(move_sizes("fast", errors).reach(), 1.3);
  EXPECT_EQ(move_sizes("unknown", errors).reach(), 1);
}

// Each move changes the constants that it names and no other; attention is a share of the rate of products.
TEST(Moves, ChangeOneConstantEach) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  target.machine.tiers[1].latency_seconds = 3;
  target.machine.host.staging_bandwidth = 40;
  target.software.host_staging = machine::HostStaging::nodes;
  std::map<std::string, machine::Machine> slower;
  for (const Move& move : moves_of(target, halves)) {
    if (move.factor < 1) slower[move.constant] = move.target.machine;
  }
  // Four devices are those of a node, whose links are of two tiers.
  EXPECT_EQ(slower.size(), 7u);
  EXPECT_EQ(moves_of(target, halves).size(), 14u);
  const auto bf16 = config::Precision::bf16;
  EXPECT_EQ(slower["products"].device.rate(bf16).achievable, 500);
  EXPECT_EQ(slower["products"].device.attention_rate(bf16), target.machine.device.attention_rate(bf16));
  EXPECT_EQ(slower["attention"].device.attention_rate(bf16), target.machine.device.attention_rate(bf16) / 2);
  EXPECT_EQ(slower["attention"].device.rate(bf16).achievable, 1000);
  EXPECT_EQ(slower["memory"].device.pass_bandwidth(bf16), 50);
  EXPECT_EQ(slower["pair links"].tiers[0].link_bandwidth, 5);
  EXPECT_EQ(slower["pair links"].tiers[1].link_bandwidth, 10);
  EXPECT_EQ(slower["node links"].tiers[1].link_bandwidth, 5);
  EXPECT_EQ(slower["latencies"].tiers[1].latency_seconds, 6);
  EXPECT_EQ(slower["data through the host"].host.staging_bandwidth, 20);
  slower["data through the host"].host.staging_bandwidth = 40;
  EXPECT_EQ(slower["data through the host"], target.machine);
}

TEST(Moves, SayTheirDirection) {
  EXPECT_EQ((Move{"products", 0.812, {}}).text(), "products 19% slower");
  EXPECT_EQ((Move{"node links", 1.06, {}}).text(), "node links 6% faster");
  EXPECT_EQ((Move{"latencies", 0.8, {}}).text(), "latencies 25% longer");
  EXPECT_EQ((Move{"latencies", 1.25, {}}).text(), "latencies 20% shorter");
}

// Without links that take time two tensor ranks halve each product, where two stages have a bubble; a link that is half
// as fast changes nothing.
TEST(HeldChoice, StaysWhereNoConstantCanFlipIt) {
  const Target target = pair_target(1e30);
  const RankedLayout tensor = ranked("tensor", with_layout(2, 1), target);
  const RankedLayout pipeline = ranked("pipeline", with_layout(1, 2), target);
  ASSERT_LT(tensor.weighed_seconds(), pipeline.weighed_seconds());
  const HeldChoice choice = held_choice({tensor, pipeline}, 0, target, halves);
  EXPECT_EQ(choice.tied, 1);
  EXPECT_EQ(choice.chosen, 0u);
  // Products and attention are all that takes time.
  ASSERT_EQ(choice.moves.size(), 4u);
  EXPECT_EQ(choice.stays_first(), 4);
  EXPECT_EQ(choice.worst_regrets[0], 0);
  EXPECT_GE(choice.worst_regrets[1], pipeline.weighed_seconds() / tensor.weighed_seconds() - 1);
  EXPECT_THAT(text_of(choice),
              HasSubstr("moving one constant at a time, 50% slower or 100% faster as published "
                        "predictions erred (a kind), the first of 2 layouts stays first in 4 of 4 moves\n"));
}

// Tensor groups send much more than stages do: with a link on which they lead by little, half of its rate makes the
// pipeline the fastest.
TEST(HeldChoice, FlipsWhereAConstantDecides) {
  double bandwidth = 1e6;
  const auto lead = [&](double of) {
    const Target target = pair_target(of);
    return predict(with_layout(1, 2), target).step_seconds / predict(with_layout(2, 1), target).step_seconds;
  };
  while (lead(bandwidth / 2) > 1) bandwidth /= 1.1;
  const Target target = pair_target(bandwidth);
  ASSERT_GT(lead(bandwidth), 1);
  const std::vector<RankedLayout> layouts = {ranked("tensor", with_layout(2, 1), target),
                                             ranked("pipeline", with_layout(1, 2), target)};
  const HeldChoice choice = held_choice(layouts, 0, target, halves);
  const auto slower = std::ranges::find_if(
      choice.moves, [](const HeldChoice::Outcome& one) { return one.constant == "pair links" && one.factor == 0.5; });
  ASSERT_NE(slower, choice.moves.end());
  EXPECT_EQ(slower->first, 1u);
  EXPECT_EQ(slower->step_seconds[0], predict(with_layout(2, 1), pair_target(bandwidth / 2)).step_seconds);
  EXPECT_EQ(slower->step_seconds[1], predict(with_layout(1, 2), pair_target(bandwidth / 2)).step_seconds);
  EXPECT_DOUBLE_EQ(slower->regret, 1 / lead(bandwidth / 2) - 1);
  EXPECT_LT(choice.stays_first(), std::ssize(choice.moves));
  EXPECT_EQ(choice.chosen, 0u) << "the pipeline is no tie";

  // As a tie the layout with the least to lose is chosen: tensor groups lose little if links are slow, and the pipeline
  // much if they are fast.
  const HeldChoice tie = held_choice(layouts, 10, target, halves);
  EXPECT_EQ(tie.tied, 2);
  const size_t least = tie.worst_regrets[0] <= tie.worst_regrets[1] ? 0 : 1;
  EXPECT_EQ(tie.chosen, least);
  const Json json = json_of(tie);
  EXPECT_EQ(json["layouts"][1]["set"], std::vector<std::string>{"pipeline"});
  EXPECT_EQ(json["moves"].size(), tie.moves.size());
  EXPECT_EQ(json["moves"][0]["step_seconds"].size(), 2u);
}

// A layout of weight 2 counts as twice as long.
TEST(HeldChoice, WeighsLayouts) {
  const Target target = pair_target(1e30);
  RankedLayout tensor = ranked("tensor", with_layout(2, 1), target);
  tensor.weight = 2;
  const RankedLayout pipeline = ranked("pipeline", with_layout(1, 2), target);
  ASSERT_GT(tensor.weighed_seconds(), pipeline.weighed_seconds());
  const HeldChoice choice = held_choice({pipeline, tensor}, 0, target, halves);
  EXPECT_EQ(choice.stays_first(), std::ssize(choice.moves));
  EXPECT_GT(choice.worst_regrets[1], 0);
}

TEST(HeldChoice, WithoutRivalsNothingIsMoved) {
  const Target target = pair_target(1e30);
  const HeldChoice choice = held_choice({ranked("tensor", with_layout(2, 1), target)}, 1, target, halves);
  EXPECT_TRUE(choice.moves.empty());
  EXPECT_EQ(text_of(choice),
            "no layout of other sizes overtakes the first if one constant is 50% slower or 100% faster, as published "
            "predictions erred (a kind)\n");
}

TEST(BestLayouts, MovingConstantsChoosesAmongTiesOnly) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  for (const size_t count : {1u, 4u}) {
    const BestLayouts fastest = best_layouts(small_gpt(4, 48, 4), target, {.count = 10});
    const BestLayouts held = best_layouts(small_gpt(4, 48, 4), target, {.count = count, .moves_constants = true});
    ASSERT_TRUE(held.choice);
    EXPECT_EQ(held.layouts.size(), count);
    const HeldChoice& choice = *held.choice;
    EXPECT_EQ(choice.tied, held.all_tied);
    for (size_t i = 0; i < choice.layouts.size(); ++i) {
      EXPECT_EQ(choice.layouts[i].change.settings, fastest.layouts[i].settings) << "rivals are the fastest in order";
      EXPECT_LE(choice.layouts[i].weighed_seconds(), choice.sizes.reach() * choice.layouts[0].weighed_seconds());
    }
    EXPECT_LT(choice.chosen, static_cast<size_t>(choice.tied));
    EXPECT_EQ(held.layouts.front().settings, choice.layouts[choice.chosen].change.settings);
    for (int64_t i = 0; i < choice.tied; ++i) {
      EXPECT_GE(choice.worst_regrets[static_cast<size_t>(i)] + 0.001, choice.worst_regrets[choice.chosen]);
    }
  }
}

}  // namespace
}  // namespace terrace::plan
