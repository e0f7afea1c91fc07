// The three nested groups: one rank worked out by hand, properties of every setting, and errors for settings that do
// not fit.
#include "terrace/mesh/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "terrace/base/error.h"

namespace terrace::mesh {
namespace {

using Ranks = std::vector<int64_t>;
using Word = config::ShardGroup::Word;

std::vector<ShardSizes> all_sizes() {
  std::vector<ShardSizes> list;
  for (const int64_t ranks : {1, 2, 3, 4, 6, 8, 12}) {
    for (int64_t o = 1; o <= ranks; ++o) {
      for (int64_t g = 1; g <= o; ++g) {
        for (int64_t w = 1; w <= g; ++w) {
          if (ranks % o != 0 || o % g != 0 || g % w != 0) continue;
          list.push_back({w, g, o, ranks});
          for (const int64_t node : {2, 3, 4}) {
            const auto fits = [&](int64_t size) { return size % node == 0 || node % size == 0; };
            if (ranks % node == 0 && fits(w) && fits(g) && fits(o)) list.push_back({w, g, o, ranks, node});
          }
        }
      }
    }
  }
  return list;
}

bool lies_in(const Part& inner, const Part& outer) {
  const int64_t total = inner.parts * outer.parts;
  return inner.begin(total) >= outer.begin(total) &&
         inner.begin(total) + inner.size(total) <= outer.begin(total) + outer.size(total);
}

TEST(ThreeLevels, MatchHandCalculation) {
  // Pairs hold the weights, nodes of four the gradients, all eight the optimizer states.
  const ShardPlace rank0({2, 4, 8, 8}, 0), rank6({2, 4, 8, 8}, 6);
  EXPECT_EQ(rank0.everyone, (Ranks{0, 4, 2, 6, 1, 5, 3, 7}));
  EXPECT_EQ(rank0.gather, (Ranks{0, 1}));
  EXPECT_EQ(rank0.reduce, (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(rank0.reduce_across, (Ranks{0, 4}));
  EXPECT_EQ(rank0.replicas, (Ranks{0}));
  EXPECT_EQ(rank0.update, (Ranks{0, 4, 2, 6}));
  EXPECT_EQ(rank6.weights, (Part{0, 2}));
  EXPECT_EQ(rank6.gradients, (Part{1, 4}));
  EXPECT_EQ(rank6.optimizer, (Part{3, 8}));
  EXPECT_EQ(rank6.reduce, (Ranks{4, 6, 5, 7}));
}

TEST(Hybrid, ReplicatesEachPart) {
  const ShardPlace place({2, 2, 2, 6}, 3);
  EXPECT_EQ(place.gather, (Ranks{2, 3}));
  EXPECT_EQ(place.reduce, (Ranks{2, 3}));
  EXPECT_EQ(place.replicas, (Ranks{1, 3, 5}));
  EXPECT_EQ(place.own, (Part{4, 6}));
}

TEST(EverySetting, NestsItsParts) {
  for (const ShardSizes& sizes : all_sizes()) {
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      const ShardPlace place(sizes, rank);
      EXPECT_TRUE(lies_in(place.gradients, place.weights));
      EXPECT_TRUE(lies_in(place.optimizer, place.gradients));
      EXPECT_TRUE(lies_in(place.own, place.optimizer));
    }
  }
}

TEST(EverySetting, MembersAgreeOnTheirGroups) {
  for (const ShardSizes& sizes : all_sizes()) {
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      const ShardPlace place(sizes, rank);
      for (const auto group : {&ShardPlace::gather, &ShardPlace::reduce, &ShardPlace::reduce_across,
                               &ShardPlace::replicas, &ShardPlace::update, &ShardPlace::everyone, &ShardPlace::copy}) {
        const Ranks& members = place.*group;
        EXPECT_TRUE(std::ranges::find(members, rank) != members.end());
        EXPECT_EQ(std::set(members.begin(), members.end()).size(), members.size());
        for (const int64_t member : members) EXPECT_EQ(ShardPlace(sizes, member).*group, members);
      }
    }
  }
}

TEST(EverySetting, HandsOutTheBlocksOfEachMovementByMember) {
  constexpr int64_t total = 12 * 8 * 6 * 6;
  for (const ShardSizes& sizes : all_sizes()) {
    const ShardPlace place(sizes, sizes.ranks - 1);
    const auto expect_blocks = [&](const Ranks& members, const Part& whole, Part ShardPlace::*part) {
      for (size_t i = 0; i < members.size(); ++i) {
        const ShardPlace other(sizes, members[i]);
        EXPECT_EQ((other.*part).begin(total), whole.begin(total) + static_cast<int64_t>(i) * whole.size(total) /
                                                                       static_cast<int64_t>(members.size()));
      }
    };
    expect_blocks(place.gather, {}, &ShardPlace::weights);
    expect_blocks(place.reduce, {}, &ShardPlace::gradients);
    expect_blocks(place.reduce_across, place.gradients, &ShardPlace::optimizer);
    expect_blocks(place.update, place.weights, &ShardPlace::optimizer);
    expect_blocks(place.replicas, place.optimizer, &ShardPlace::own);
    expect_blocks(place.everyone, {}, &ShardPlace::own);
    expect_blocks(place.copy, {}, &ShardPlace::optimizer);
  }
}

// Members of a node next to each other, and one of each node.
TEST(Rails, HoldTheBlocksOfTheWholeGroupByNodeAndPlace) {
  int64_t checked = 0;
  for (const ShardSizes& sizes : all_sizes()) {
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      const ShardPlace place(sizes, rank);
      const auto check = [&](const Ranks& members, int64_t inner, int64_t outer) {
        if (!sizes.has_two_hops(inner, outer)) return;
        const Hops hops = hops_of(members, sizes, rank);
        const auto node_of = [&](int64_t member) { return member / sizes.rails_node; };
        const int64_t i = std::ranges::find(hops.node, rank) - hops.node.begin();
        const int64_t j = std::ranges::find(hops.rails, rank) - hops.rails.begin();
        const auto nodes = std::ssize(hops.rails);
        ASSERT_EQ(std::ssize(hops.node) * nodes, std::ssize(members));
        for (int64_t other = 0; other < std::ssize(hops.node); ++other) {
          EXPECT_EQ(members[static_cast<size_t>(other * nodes + j)], hops.node[static_cast<size_t>(other)]);
          EXPECT_EQ(node_of(hops.node[static_cast<size_t>(other)]), node_of(rank));
        }
        std::set<int64_t> of_nodes;
        for (int64_t other = 0; other < nodes; ++other) {
          EXPECT_EQ(members[static_cast<size_t>(i * nodes + other)], hops.rails[static_cast<size_t>(other)]);
          of_nodes.insert(node_of(hops.rails[static_cast<size_t>(other)]));
        }
        EXPECT_EQ(std::ssize(of_nodes), nodes);
        ++checked;
      };
      check(place.gather, 1, sizes.weights);
      check(place.reduce, 1, sizes.gradients);
      check(place.reduce_across, sizes.gradients, sizes.optimizer);
      check(place.update, sizes.weights, sizes.optimizer);
    }
  }
  EXPECT_GT(checked, 100);
}

ShardSizes sizes_of(const config::LayoutConfig& layout, int64_t ranks, int64_t node, int64_t tensor = 1) {
  const Mesh mesh(ranks, {{"data", ranks / tensor}, {"tensor", tensor}},
                  {.ranks_per_pair = layout.ranks_per_pair, .ranks_per_node = node});
  return shard_sizes(layout, mesh);
}

TEST(Names, ShardSizesOfEachName) {
  using config::Sharding;
  const auto named = [](Sharding sharding) {
    return sizes_of({.sharding = sharding, .shard_group = sharding == Sharding::hybrid ? 2 : 0}, 8, 4);
  };
  EXPECT_EQ(named(Sharding::ddp), (ShardSizes{1, 1, 1, 8}));
  EXPECT_EQ(named(Sharding::zero1), (ShardSizes{1, 1, 8, 8}));
  EXPECT_EQ(named(Sharding::zero2), (ShardSizes{1, 8, 8, 8}));
  EXPECT_EQ(named(Sharding::zero3), (ShardSizes{8, 8, 8, 8}));
  EXPECT_EQ(named(Sharding::hybrid), (ShardSizes{2, 2, 2, 8}));
  EXPECT_EQ(named(Sharding::node), (ShardSizes{4, 8, 8, 8}));
  EXPECT_EQ(named(Sharding::three_level), (ShardSizes{2, 4, 8, 8}));
}

TEST(Rails, NumberedByNodesOfDataParallelRanks) {
  const config::LayoutConfig zero3{.sharding = config::Sharding::zero3, .route = config::Routing::rails};
  EXPECT_EQ(sizes_of(zero3, 16, 8), (ShardSizes{16, 16, 16, 16, 8}));
  EXPECT_EQ(sizes_of(zero3, 16, 8, 2), (ShardSizes{8, 8, 8, 8, 4}));
  EXPECT_EQ(sizes_of(zero3, 16, 4, 8), (ShardSizes{2, 2, 2, 2, 1}));
  const ShardPlace rank0({8, 8, 8, 8, 4}, 0);
  EXPECT_EQ(rank0.gather, (Ranks{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(Rails, RefusesGroupsThatDoNotFitTheNodes) {
  const auto complaint = [](int64_t ranks, int64_t node, int64_t group) -> std::string {
    config::LayoutConfig layout{.sharding = config::Sharding::hybrid, .shard_group = group};
    layout.route = config::Routing::rails;
    try {
      sizes_of(layout, ranks, node);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(12, 4, 12), "");
  EXPECT_NE(complaint(12, 4, 6).find("rails\" among nodes of 4 data-parallel ranks does not fit weights over 6"),
            std::string::npos);
  EXPECT_NE(complaint(12, 5, 12).find("needs the same number of data-parallel ranks on all nodes"), std::string::npos);
}

TEST(Names, CountOnlyDataParallelRanks) {
  // Two tensor-parallel ranks fill each pair, so a node of eight has four data-parallel ranks.
  EXPECT_EQ(sizes_of({.sharding = config::Sharding::three_level}, 16, 8, 2), (ShardSizes{1, 4, 8, 8}));
}

TEST(Groups, GivenSizesReplaceTheNamedOnes) {
  EXPECT_EQ(
      sizes_of({.sharding = config::Sharding::zero1, .shard_gradients = {.word = Word::number, .number = 2}}, 4, 4),
      (ShardSizes{1, 2, 4, 4}));
}

TEST(Groups, RefusesAllUnnestedGroupsTogether) {
  try {
    sizes_of({.shard_weights = {.word = Word::number, .number = 4},
              .shard_gradients = {.word = Word::number, .number = 6},
              .shard_optimizer = {.word = Word::number, .number = 6}},
             8, 8);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "[layout] cuts weights, gradients and optimizer states over groups that must lie in each other:\n"
        "  weights over 4 ranks do not fit gradients, which are cut over 6; use 1, 2, 3 or 6\n"
        "  optimizer states over 6 ranks do not fit the data-parallel ranks, of which there are 8; use 1, 2, 4 "
        "or 8");
  }
}

// 16 ranks in nodes of four: groups inside a node, between nodes, and with two tensor ranks that share a node.
TEST(TypedNodes, HoldTheGroupsThatLieInsideThem) {
  const config::LayoutConfig layout{.sharding = config::Sharding::zero3, .node_type = config::NodeType::bf16};
  const ShardSizes sizes = sizes_of(layout, 16, 4);
  EXPECT_EQ(sizes.typed_node, 4);
  for (const auto& [outer, inside] : {std::pair{1, false}, {2, true}, {4, true}, {8, false}, {16, false}}) {
    EXPECT_EQ(sizes.is_inside_typed_node(outer), inside) << outer;
  }
  EXPECT_EQ(sizes_of(layout, 16, 4, 2).typed_node, 2);
  EXPECT_EQ(sizes_of(layout, 4, 8).typed_node, 4);
  EXPECT_EQ(sizes_of({.sharding = config::Sharding::zero3}, 16, 4).typed_node, 1);
  EXPECT_FALSE(sizes_of({.sharding = config::Sharding::zero3}, 16, 4).is_inside_typed_node(2));
}

TEST(TypedNodes, RefusesNodesOfDifferentSizes) {
  try {
    sizes_of({.sharding = config::Sharding::zero1, .node_type = config::NodeType::bf16}, 6, 4);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("node_type needs the same number of data-parallel ranks on all nodes; use \"as others\""),
              std::string::npos)
        << error.what();
  }
}

// A quantized movement gives every parameter blocks of its own, whichever movement it is.
TEST(Alignment, OneBlockWhereAMovementQuantizes) {
  using config::WireType;
  EXPECT_EQ(parameter_alignment({}), 32);
  EXPECT_EQ(parameter_alignment({.gather_type = WireType::bf16, .reduce_type = WireType::fp32}), 32);
  EXPECT_EQ(parameter_alignment({.gather_type = WireType::int8}), 256);
  EXPECT_EQ(parameter_alignment({.reduce_type = WireType::int4}), 256);
  EXPECT_EQ(parameter_alignment({.update_type = WireType::fp8}), 256);
}

TEST(Padding, EndsEveryPartWithAPiece) {
  EXPECT_EQ(padded_size(1, 3, 4), 12);
  EXPECT_EQ(padded_size(12, 3, 4), 12);
  EXPECT_EQ(padded_size(13, 3, 4), 24);
}

}  // namespace
}  // namespace terrace::mesh
