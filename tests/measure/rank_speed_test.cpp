// Ranks as threads measure how fast they compute, copy and send.
#include "terrace/measure/rank_speed.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "terrace/comm/threads/threads.h"

namespace terrace::measure {
namespace {

TEST(RankSpeed, HasEachRanksProductsCopiesAndLinksToItsNeighbours) {
  at::set_num_threads(1);
  std::vector<RankSpeed> speeds(3);
  comm::run_threads(3, {}, [&](comm::World& world) {
    speeds[static_cast<size_t>(world.rank())] = measure_rank_speed(world, at::kCPU);
  });
  for (const RankSpeed& speed : speeds) {
    EXPECT_GT(speed.product_flops, 1e8);
    EXPECT_LT(speed.product_flops, 1e13);
    EXPECT_GE(speed.product_spread, 0);
    EXPECT_GE(speed.longest_product, 1);
    EXPECT_GT(speed.copied_bytes, 1e7);
    EXPECT_LT(speed.copied_bytes, 1e12);
  }
  const auto partners = [&](size_t rank) {
    std::vector<int64_t> ranks;
    for (const auto& [other, rate] : speeds[rank].links) {
      EXPECT_GT(rate, 1e6);
      ranks.push_back(other);
    }
    return ranks;
  };
  EXPECT_EQ(partners(0), std::vector<int64_t>{1});
  EXPECT_EQ(partners(1), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(partners(2), std::vector<int64_t>{1});
}

TEST(RankSpeed, IsComparedWithTheLinksOfTheInnermostTierThatHasBothRanks) {
  machine::Machine machine;
  machine.device.memory_bandwidth = 3;
  machine.noise.instruction_spread = 0.02;
  machine.device.products[static_cast<size_t>(config::Precision::fp32)].achievable = 5;
  machine.tiers = {{.name = "node", .devices = 4, .link_bandwidth = 100},
                   {.name = "network", .devices = 16, .link_bandwidth = 40, .devices_per_link = 2}};
  const RankSpeed described = described_speed(machine, at::kCPU, 5, {.links = {{4, 1}, {9, 1}, {16, 1}}});
  EXPECT_EQ(described.product_flops, 5);
  EXPECT_EQ(described.copied_bytes, 3);
  EXPECT_EQ(described.product_spread, 0.02);
  // Rank 16 is on no such machine.
  EXPECT_EQ(described.links, (std::vector<std::pair<int64_t, double>>{{4, 100}, {9, 20}}));
}

}  // namespace
}  // namespace terrace::measure
