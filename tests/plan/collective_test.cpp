// Compares times of collectives with times worked out by hand, and with times measured on a machine with MI250X.
#include "terrace/plan/time/collective.h"

#include <gtest/gtest.h>

#include <vector>

namespace terrace::plan {
namespace {

using machine::Machine;

// One link of 200 bytes/s out of each device, one of 100 out of each pair, four of 50 out of each node.
Machine round_machine() {
  Machine machine;
  machine.name = "round";
  machine.tiers = {
      {.name = "pair", .devices = 2, .link_bandwidth = 200, .devices_per_link = 1, .latency_seconds = 1},
      {.name = "node", .devices = 8, .link_bandwidth = 100, .devices_per_link = 2, .latency_seconds = 2},
      {.name = "network", .devices = 64, .link_bandwidth = 50, .devices_per_link = 2, .latency_seconds = 10}};
  return machine;
}

// `ranks` ranks from 0 on, `stride` apart.
mesh::Group group_of(int64_t ranks, int64_t stride = 1) { return mesh::spaced_ranks("", 0, ranks, stride); }

CollectiveTime time_of(CollectiveKind collective, double bytes, const mesh::Group& group,
                       const std::vector<Algorithm>& algorithms = {Algorithm::ring}) {
  const Machine machine = round_machine();
  return collective_time(collective, bytes, place_of(group, machine), machine, algorithms);
}

TEST(GroupPlace, CountsMembersAndGroupsInUnitsOfEachTier) {
  const Machine machine = round_machine();
  EXPECT_EQ(place_of(group_of(1), machine), (GroupPlace{1, {1, 1, 1}, {2, 8, 64}}));
  EXPECT_EQ(place_of(group_of(4), machine), (GroupPlace{4, {2, 4, 4}, {1, 2, 16}}));
  EXPECT_EQ(place_of(group_of(8, 8), machine), (GroupPlace{8, {1, 1, 8}, {2, 8, 8}}));
  EXPECT_EQ(place_of(group_of(8, 2), machine), (GroupPlace{8, {1, 4, 8}, {2, 2, 8}}));
  // Groups of three lie across the nodes; two of them and a part of a third are in each.
  EXPECT_EQ(place_of(group_of(3), machine), (GroupPlace{3, {2, 3, 3}, {1, 3, 22}}));
  // The order of the members does not matter, and devices without ranks have no groups.
  EXPECT_EQ(place_of({.name = "", .ranks = {3, 1, 0, 2}}, machine, 6), (GroupPlace{4, {2, 4, 4}, {1, 2, 2}}));
}

TEST(CollectiveTime, ZeroForOneRank) {
  for (const CollectiveKind collective :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce,
        CollectiveKind::all_to_all, CollectiveKind::send}) {
    EXPECT_EQ(time_of(collective, 1e6, group_of(1)).seconds, 0);
  }
}

// Four edges of the ring are inside pairs and four between them; a block passes over all but one of the first kind.
// 700 bytes leave each pair on its link of 100 bytes/s.
TEST(RingTime, OneNodeMatchesHandCalculation) {
  const CollectiveTime time = time_of(CollectiveKind::all_gather, 800, group_of(8));
  EXPECT_EQ(time.latency_seconds, 4 * 1 + 4 * 2 - 1);
  EXPECT_EQ(time.seconds, 11 + 7);
  EXPECT_EQ(time.tier, 1);
  EXPECT_EQ(time_of(CollectiveKind::reduce_scatter, 800, group_of(8)).seconds, 18);
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 800, group_of(8)).seconds, 2 * 18);
}

// Blocks of 100 bytes: one partner is in the same pair, and each rank of a pair sends to six outside, over one link of
// 100 bytes/s.
TEST(DirectTime, AllToAllInANodeMatchesHandCalculation) {
  const CollectiveTime time = time_of(CollectiveKind::all_to_all, 800, group_of(8));
  EXPECT_EQ(time.latency_seconds, 1 * 1 + 6 * 2);
  EXPECT_EQ(time.seconds, 13 + 12);
  EXPECT_EQ(time.tier, 1);
  EXPECT_EQ(sent_bytes(CollectiveKind::all_to_all, 800, 8), 700);
}

// Each of the eight ranks of a node sends 100 bytes to each of the eight of the other one, over four links of 50
// bytes/s, where a ring sends a quarter of that.
TEST(DirectTime, SendsEveryBlockAcrossTwoNodes) {
  const CollectiveTime time = time_of(CollectiveKind::all_to_all, 1600, group_of(16));
  EXPECT_EQ(time.latency_seconds, 1 * 1 + 6 * 2 + 8 * 10);
  EXPECT_EQ(time.seconds, 93 + 32);
  EXPECT_EQ(time.tier, 2);
}

// As above, with messages of 0.5 s inside nodes and 3 s between them: 7 of the first and 8 of the second, of which the
// last takes a step of 10 s.
TEST(DirectTime, FurtherMessagesTakeTheirOwnTime) {
  Machine machine = round_machine();
  machine.tiers[0].message_seconds = machine.tiers[1].message_seconds = 0.5;
  machine.tiers[2].message_seconds = 3;
  const auto exchange = [&](int64_t ranks) {
    return collective_time(CollectiveKind::all_to_all, 1600, place_of(group_of(ranks), machine), machine, {});
  };
  EXPECT_EQ(exchange(16).latency_seconds, 7 * 0.5 + 8 * 3 + (10 - 3));
  EXPECT_EQ(exchange(16).seconds, 34.5 + 32);
  EXPECT_EQ(exchange(8).latency_seconds, 7 * 0.5 + (2 - 0.5));
  // Rings have the latency of steps.
  EXPECT_EQ(collective_time(CollectiveKind::all_gather, 0, place_of(group_of(8, 8), machine), machine, {}).seconds, 70);
}

TEST(DirectTime, AmongMoreRanksThanLinksServeReachesAShareOfThem) {
  Machine machine = round_machine();
  machine.tiers[2].direct_ranks = 16;
  machine.tiers[2].direct_share = 0.25;
  const auto exchange = [&](int64_t ranks) {
    return collective_time(CollectiveKind::all_to_all, 1600, place_of(group_of(ranks), machine), machine, {});
  };
  EXPECT_EQ(exchange(16).seconds, 93 + 32);
  // 32 ranks: each of the eight of a node sends 50 bytes to each of 24 others.
  EXPECT_EQ(exchange(32).seconds, 1 + 6 * 2 + 24 * 10 + 8 * 24 * 50 / (0.25 * 200));
  // Rings are not crowded.
  EXPECT_EQ(collective_time(CollectiveKind::all_gather, 1600, place_of(group_of(32), machine), machine, {}).seconds,
            time_of(CollectiveKind::all_gather, 1600, group_of(32)).seconds);
}

// The outermost tier that a group uses decides. Over two nodes of two ranks, a gather sends 4/3 of a ring's bytes out
// of each: 4 blocks instead of 3.
TEST(DirectTime, TakenForGathersAndSumsIfTheTierSaysSo) {
  Machine machine = round_machine();
  machine.tiers.back().exchange = machine::Exchange::direct;
  const std::vector<Algorithm> rings = {Algorithm::ring, Algorithm::tree};
  const auto time = [&](CollectiveKind collective, const mesh::Group& group) {
    return collective_time(collective, 400, place_of(group, machine), machine, rings);
  };
  const mesh::Group two_nodes{.name = "", .ranks = {0, 2, 8, 10}};
  const CollectiveTime gather = time(CollectiveKind::all_gather, two_nodes);
  EXPECT_EQ(gather.algorithm, Algorithm::direct);
  EXPECT_EQ(gather.latency_seconds, 2 + 2 * 10);
  // Four such groups share the four links of 50 bytes/s out of each node.
  EXPECT_EQ(gather.seconds, 22 + 4 * 400.0 / 200);
  EXPECT_EQ(gather.tier, 2);
  EXPECT_EQ(time(CollectiveKind::reduce_scatter, two_nodes).seconds, gather.seconds);
  EXPECT_EQ(time(CollectiveKind::all_to_all, two_nodes).seconds, gather.seconds);
  EXPECT_EQ(time(CollectiveKind::all_reduce, two_nodes).seconds, 2 * gather.seconds);
  const CollectiveTime ring = time_of(CollectiveKind::all_gather, 400, two_nodes);
  EXPECT_EQ(ring.seconds - ring.latency_seconds, 4 * 300.0 / 200);
  // Both algorithms send the same with one rank a node, and inside a node this one has rings.
  EXPECT_EQ(time(CollectiveKind::all_gather, group_of(4, 8)).seconds,
            time_of(CollectiveKind::all_gather, 400, group_of(4, 8)).seconds);
  EXPECT_EQ(time(CollectiveKind::all_gather, group_of(8)).algorithm, Algorithm::ring);
}

// Eight edges inside pairs, six between the pairs of a node and two between nodes. The four links out of a node carry
// its 1500 bytes in 7.5 s, the link out of a pair in 15 s.
TEST(RingTime, UsesAllLinksOutOfANodeOverTwoNodes) {
  const CollectiveTime time = time_of(CollectiveKind::all_gather, 1600, group_of(16));
  EXPECT_EQ(time.latency_seconds, 8 * 1 + 6 * 2 + 2 * 10 - 1);
  EXPECT_EQ(time.seconds, 39 + 15);
  EXPECT_EQ(time.tier, 1);
}

// The eight groups with one member in each node share the node's four links.
TEST(RingTime, GroupsThatShareLinksTakeTheTimeOfTheirSum) {
  const CollectiveTime time = time_of(CollectiveKind::all_gather, 800, group_of(8, 8));
  EXPECT_EQ(time.latency_seconds, 7 * 10);
  EXPECT_EQ(time.seconds, 70 + 8 * 700.0 / 200);
  EXPECT_EQ(time.tier, 2);
  // A group that is alone with one device of each node reaches one of the links.
  const CollectiveTime alone =
      collective_time(CollectiveKind::all_gather, 100, {2, {1, 1, 2}, {1, 1, 1}}, round_machine(), {Algorithm::ring});
  EXPECT_EQ(alone.seconds, 10 + 50.0 / 50);
}

// Without latency inside pairs, a block passes over all four edges between them.
TEST(RingTime, LeavesOutTheEdgeWithTheLeastLatency) {
  Machine machine = round_machine();
  machine.tiers[0].latency_seconds = 0;
  const GroupPlace place = place_of(group_of(8), machine);
  EXPECT_EQ(collective_time(CollectiveKind::all_gather, 0, place, machine, {Algorithm::ring}).seconds, 4 * 2);
}

TEST(RingTime, ThreeRanksMatchHandCalculation) {
  // Ranks 0 and 1 are a pair, rank 2 is in the next one; three groups of this kind have members in a node, one in a
  // pair. A ring of two units in a node has two edges between them and one inside a pair.
  const CollectiveTime time = time_of(CollectiveKind::all_reduce, 300, group_of(3));
  EXPECT_EQ(time.latency_seconds, 2 * (1 * 1 + 2 * 2 - 1));
  EXPECT_EQ(time.seconds, 8 + 2 * 200.0 / 100);
}

// A chain of eight members in a node has four edges inside pairs and three between them; eight nodes are three levels
// of a tree. Each link out of a pair carries the tensor up and down.
TEST(TreeTime, MatchesHandCalculation) {
  const CollectiveTime time = time_of(CollectiveKind::all_reduce, 100, group_of(64), {Algorithm::tree});
  EXPECT_EQ(time.latency_seconds, 2 * (4 * 1 + 3 * 2 + 3 * 10));
  EXPECT_EQ(time.seconds, 80 + 200.0 / 100);
  EXPECT_EQ(time.algorithm, Algorithm::tree);
  // There are no trees for gathers.
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 100, group_of(64), {Algorithm::tree}).algorithm, Algorithm::ring);
}

// Blocks of 10 bytes. First the ranks of eight nodes exchange 7 blocks each (8 ranks share 200 bytes/s), then those of
// four pairs 24 each (2 share 100), then the two of a pair 32 (200 each).
TEST(RecursiveDoublingTime, MatchesHandCalculation) {
  const CollectiveTime time = time_of(CollectiveKind::all_gather, 640, group_of(64), {Algorithm::recursive_doubling});
  EXPECT_EQ(time.latency_seconds, 3 * 10 + 2 * 2 + 1);
  EXPECT_DOUBLE_EQ(time.seconds, 35 + 8 * 70.0 / 200 + 2 * 240.0 / 100 + 320.0 / 200);
  EXPECT_EQ(time.tier, 1);
  EXPECT_DOUBLE_EQ(time_of(CollectiveKind::all_reduce, 640, group_of(64), {Algorithm::recursive_doubling}).seconds,
                   2 * time.seconds);
  // Five ranks need three steps.
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 0, group_of(5, 8), {Algorithm::recursive_doubling}).seconds, 3 * 10);
}

// Blocks of 10 bytes among 64 ranks in six steps over distances 1 to 32, with as many blocks. Out of a node of eight go
// 1, 2, 4, 8, 8, 8 messages, over 200 bytes/s; out of a pair 1, 2, 2, 2, 2, 2, of which a quarter of those of the node
// leave it, over 100 bytes/s; inside a pair those of the first step and half of those of its pair stay, over 200
// bytes/s.
TEST(BruckTime, MatchesHandCalculation) {
  const CollectiveTime time = time_of(CollectiveKind::all_gather, 640, group_of(64), {Algorithm::bruck});
  EXPECT_EQ(time.algorithm, Algorithm::bruck);
  EXPECT_EQ(time.latency_seconds, 6 * 10);
  // In the first two steps the links out of pairs take as long as those out of nodes or longer.
  const double first = 10 * 0.75 / 100, second = 20 * 1.5 / 100;
  const double others = (40 * 4 + 80 * 8 + 160 * 8 + 320 * 8) / 200.0;
  EXPECT_DOUBLE_EQ(time.seconds, 60 + first + second + others);
  EXPECT_EQ(time.tier, 2);
  // Five ranks of five nodes need three steps, with 1, 2 and 1 blocks; the eight groups share the links.
  const CollectiveTime five = time_of(CollectiveKind::all_gather, 50, group_of(5, 8), {Algorithm::bruck});
  EXPECT_DOUBLE_EQ(five.seconds, 3 * 10 + 8 * 40.0 / 200);
  // Sums take a ring.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 640, group_of(64), {Algorithm::bruck}).algorithm, Algorithm::ring);
}

// The first call is among the eight nodes, with 80 bytes in each of eight groups, the second one inside the nodes.
TEST(TwoHopTime, SumsBothCalls) {
  const std::vector<Algorithm> both = {Algorithm::ring, Algorithm::two_hop};
  const CollectiveTime gather = time_of(CollectiveKind::all_gather, 640, group_of(64), both);
  EXPECT_EQ(gather.algorithm, Algorithm::two_hop);
  EXPECT_EQ(gather.latency_seconds, 7 * 10 + 11);
  EXPECT_DOUBLE_EQ(gather.seconds, 81 + 8 * 70.0 / 200 + 560.0 / 100);
  EXPECT_DOUBLE_EQ(time_of(CollectiveKind::reduce_scatter, 640, group_of(64), both).seconds, gather.seconds);
  EXPECT_DOUBLE_EQ(time_of(CollectiveKind::all_reduce, 640, group_of(64), both).seconds, 2 * gather.seconds);
  // Inside a node, the hops would be inside pairs and between them.
  const CollectiveTime node = time_of(CollectiveKind::all_gather, 8, group_of(8), both);
  EXPECT_EQ(node.algorithm, Algorithm::two_hop);
  EXPECT_DOUBLE_EQ(node.seconds, (3 * 2 + 2 * 3.0 / 100) + (1 + 4.0 / 200));
}

TEST(SendTime, TakesTheTierBetweenBothRanks) {
  const auto send = [](int64_t to) { return time_of(CollectiveKind::send, 100, {.name = "", .ranks = {0, to}}); };
  EXPECT_EQ(send(1).seconds, 1 + 100.0 / 200);
  EXPECT_EQ(send(2).seconds, 2 + 2 * 100.0 / 100);   // both devices of a pair send
  EXPECT_EQ(send(8).seconds, 10 + 8 * 100.0 / 200);  // all devices of a node
  EXPECT_EQ(send(8).tier, 2);
}

// Data between groups of nodes pass over the links out of their nodes too, and over those between the groups.
TEST(CollectiveTime, UsesTheLinksOfBothTiersOfANetwork) {
  Machine machine = round_machine();
  // Two links out of a group of 64 devices.
  machine.tiers.push_back(
      {.name = "groups", .devices = 256, .link_bandwidth = 50, .devices_per_link = 32, .latency_seconds = 20});
  const GroupPlace place = place_of(group_of(4, 64), machine);
  const CollectiveTime time = collective_time(CollectiveKind::all_gather, 4, place, machine, {Algorithm::ring});
  EXPECT_EQ(time.latency_seconds, 3 * 20);
  EXPECT_EQ(time.seconds, 60 + 64 * 3.0 / 100);
  EXPECT_EQ(time.tier, 3);
  machine.tiers.back().devices_per_link = 1;
  const CollectiveTime wide = collective_time(CollectiveKind::all_gather, 4, place, machine, {Algorithm::ring});
  EXPECT_EQ(wide.seconds, 60 + 8 * 3.0 / 200);
  EXPECT_EQ(wide.tier, 2);
}

// A node of four MI250X: 148 GB/s measured between the dies of one, 125 GB/s for collectives among the eight dies, and
// one NIC of 23.8 GB/s for each MI250X. A small all-reduce in a node takes 25 us in 14 steps, a step between nodes 22.
Machine mi250x_nodes() {
  Machine machine;
  machine.name = "nodes of four MI250X";
  machine.tiers = {
      {.name = "pair", .devices = 2, .link_bandwidth = 148e9, .devices_per_link = 1, .latency_seconds = 25e-6 / 14},
      {.name = "node", .devices = 8, .link_bandwidth = 125e9, .devices_per_link = 2, .latency_seconds = 25e-6 / 14},
      {.name = "network", .devices = 4096, .link_bandwidth = 23.8e9, .devices_per_link = 2, .latency_seconds = 22e-6}};
  return machine;
}

CollectiveTime on_mi250x(CollectiveKind collective, double bytes, int64_t ranks,
                         const std::vector<Algorithm>& algorithms) {
  const Machine machine = mi250x_nodes();
  return collective_time(collective, bytes, place_of(group_of(ranks), machine), machine, algorithms);
}

constexpr double mib = 1024 * 1024;

// Measured bus bandwidths, 2 (N - 1) / N bytes / seconds, of 128 MiB: 125 GB/s in a node and 85 GB/s over two. The
// second is predicted from figures of single links, so a tenth is allowed for what the formulas leave out.
TEST(OnMi250x, BusBandwidthsOfAnAllReduceAreThoseMeasured) {
  const auto bandwidth = [](int64_t ranks) {
    const auto n = static_cast<double>(ranks);
    return 2 * (n - 1) / n * 128 * mib /
           on_mi250x(CollectiveKind::all_reduce, 128 * mib, ranks, {Algorithm::ring, Algorithm::tree}).seconds;
  };
  EXPECT_NEAR(bandwidth(8), 125e9, 12.5e9);
  EXPECT_NEAR(bandwidth(16), 85e9, 8.5e9);
}

TEST(OnMi250x, LatencyOfARingGrowsLinearlyWithTheRanks) {
  const double of_256 = on_mi250x(CollectiveKind::all_gather, 1, 256, {Algorithm::ring}).seconds;
  for (const int64_t ranks : {512, 1024, 2048}) {
    const double found = on_mi250x(CollectiveKind::all_gather, 1, ranks, {Algorithm::ring}).seconds;
    // One edge of a ring does not count.
    const double factor = static_cast<double>(ranks) / 256;
    EXPECT_NEAR(found / of_256, factor, factor / 256) << ranks;
  }
}

// Published for 2,048 dies: rings take 5 to 170 times as long as hierarchical exchanges.
TEST(OnMi250x, RingsOfManyDiesAreManyTimesSlowerThanTwoHops) {
  for (const CollectiveKind collective :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
    const double ring = on_mi250x(collective, 64 * mib, 2048, {Algorithm::ring}).seconds;
    const CollectiveTime hierarchical =
        on_mi250x(collective, 64 * mib, 2048, {Algorithm::recursive_doubling, Algorithm::two_hop, Algorithm::ring});
    EXPECT_GT(ring / hierarchical.seconds, 5);
    EXPECT_LT(ring / hierarchical.seconds, 170);
    EXPECT_EQ(hierarchical.algorithm, Algorithm::two_hop);
  }
  // Large tensors on few dies take as long either way.
  const double ring = on_mi250x(CollectiveKind::all_gather, 1024 * mib, 16, {Algorithm::ring}).seconds;
  const double two_hop = on_mi250x(CollectiveKind::all_gather, 1024 * mib, 16, {Algorithm::two_hop}).seconds;
  EXPECT_NEAR(ring / two_hop, 1, 0.5);
}

}  // namespace
}  // namespace terrace::plan
