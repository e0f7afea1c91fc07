// Tests which changes of a layout a resumed run says change the last bits. The layouts that give the same bits are
// those that tests/parallel/equivalence_test.cpp compares.
#include "terrace/train/layout_difference.h"

#include "tests/train/tiny_run.h"

namespace terrace::train {
namespace {

using Keys = std::vector<std::string>;

class LayoutDifference : public TinyRun {
 protected:
  std::string between(Keys saved, Keys now, int64_t ranks = 4, int64_t here = 2) const {
    for (Keys* keys : {&saved, &now}) keys->insert(keys->begin(), {"train.global_batch=8", "train.micro_batch=1"});
    return layout_difference(tiny_config(saved), tiny_config(now), ranks, here);
  }
};

TEST_F(LayoutDifference, NamesWhatCutsTheModelInAnotherWay) {
  EXPECT_EQ(between({}, {}), "");
  EXPECT_EQ(between({"layout.tensor=2"}, {"layout.pipeline=2"}), "layout.tensor 2 -> 1, layout.pipeline 1 -> 2");
  EXPECT_EQ(between({"layout.tensor=2", "layout.sharding=zero1"}, {}),
            "layout.tensor 2 -> 1, layout.sharding \"zero1\" -> \"ddp\"");
  const Keys two = {"layout.pipeline=2"}, gpipe = {"layout.pipeline=2", "layout.schedule=gpipe"};
  EXPECT_EQ(between(two, gpipe), "") << "sums over micro-batches have one order in every schedule";
  EXPECT_EQ(between({"layout.reduce_type=bf16"}, {}), "layout.reduce_type \"bf16\" -> \"same\"");
  EXPECT_EQ(between({}, {"layout.outer_every=2"}), "layout.outer_every 0 -> 2");
}

TEST_F(LayoutDifference, NamesAShardingThatSumsInAnotherOrder) {
  EXPECT_EQ(between({}, {"layout.sharding=zero1"}), "");
  EXPECT_EQ(between({"layout.sharding=zero2"}, {"layout.sharding=zero3"}), "");
  EXPECT_EQ(between({}, {"layout.prefetch=1", "layout.sharding=zero3"}), "layout.sharding \"ddp\" -> \"zero3\"")
      << "zero3 sums over the ranks after each of the two micro-batches";
  EXPECT_EQ(between({}, {"layout.sharding=zero3"}, 8), "") << "a rank has one micro-batch";
  EXPECT_EQ(between({}, {"layout.sharding=node"}, 8), "") << "only weights are cut over the node";
  EXPECT_EQ(between({}, {"layout.sharding=hybrid", "layout.shard_group=2"}, 8),
            "layout.sharding \"ddp\" -> \"hybrid\", layout.shard_group 0 -> 2");
  const Keys in_order = {"layout.deterministic=true"};
  EXPECT_EQ(between(in_order, {"layout.deterministic=true", "layout.sharding=three_level"}), "");
  EXPECT_EQ(between(in_order, {}), "layout.deterministic true -> false");
}

}  // namespace
}  // namespace terrace::train
