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
          if (ranks % o == 0 && o % g == 0 && g % w == 0) list.push_back({w, g, o, ranks});
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

TEST(ThreeLevels, AreAsWorkedOutByHand) {
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

TEST(EverySetting, HasPartsThatLieInEachOther) {
  for (const ShardSizes& sizes : all_sizes()) {
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      const ShardPlace place(sizes, rank);
      EXPECT_TRUE(lies_in(place.gradients, place.weights));
      EXPECT_TRUE(lies_in(place.optimizer, place.gradients));
      EXPECT_TRUE(lies_in(place.own, place.optimizer));
    }
  }
}

TEST(EverySetting, HasGroupsThatTheirMembersAgreeOn) {
  for (const ShardSizes& sizes : all_sizes()) {
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      const ShardPlace place(sizes, rank);
      for (const auto group : {&ShardPlace::gather, &ShardPlace::reduce, &ShardPlace::reduce_across,
                               &ShardPlace::replicas, &ShardPlace::update, &ShardPlace::everyone}) {
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
  }
}

ShardSizes sizes_of(const config::LayoutConfig& layout, int64_t ranks, int64_t node, int64_t tensor = 1) {
  const Mesh mesh(ranks, {{"data", ranks / tensor}, {"tensor", tensor}},
                  {.ranks_per_pair = layout.ranks_per_pair, .ranks_per_node = node});
  return shard_sizes(layout, mesh);
}

TEST(Names, AreTheTableOfTheField) {
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

TEST(Names, CountOnlyDataParallelRanks) {
  // Two tensor-parallel ranks fill each pair, so a node of eight has four data-parallel ranks.
  EXPECT_EQ(sizes_of({.sharding = config::Sharding::three_level}, 16, 8, 2), (ShardSizes{1, 4, 8, 8}));
}

TEST(Groups, GivenInFullReplaceTheNamedOnes) {
  EXPECT_EQ(
      sizes_of({.sharding = config::Sharding::zero1, .shard_gradients = {.word = Word::number, .number = 2}}, 4, 4),
      (ShardSizes{1, 2, 4, 4}));
}

TEST(Groups, ThatDoNotLieInEachOtherAreRefusedTogether) {
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

// A quantized movement gives every parameter blocks of its own, whichever movement it is.
TEST(Alignment, IsABlockWhereAMovementQuantizes) {
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
