// Tests that the trainer trains pairs to the same bits with every layout. With five samples in a step, some ranks of
// larger worlds have no samples, and some micro-batches have no items.
#include "tests/parallel/layouts.h"

#include <gtest/gtest.h>

#include "terrace/verify/verify.h"
#include "tests/families/pair/runs.h"

namespace terrace::pair {
namespace {

using Keys = std::vector<std::string>;

class FamilyLayouts : public PairRuns {
 protected:
  static Keys keys_of(const parallel::Layout& layout, const Keys& more = {}) {
    Keys keys = more;
    for (const std::string& key : layout.keys) keys.push_back("layout." + key);
    return keys;
  }

  // Compared with plain data parallelism on the same number of ranks.
  void expect_equal(const std::vector<parallel::Layout>& layouts, const Keys& more) {
    std::map<int64_t, Result> plain;
    for (const parallel::Layout& layout : layouts) {
      SCOPED_TRACE(layout.name());
      if (!plain.contains(layout.ranks)) plain[layout.ranks] = run(layout.ranks, more);
      expect_same(run(layout.ranks, keys_of(layout, more)), plain.at(layout.ranks));
    }
  }

  // Compared with one stage and the same number of data-parallel ranks; without clipping, whose norm is a sum over
  // stages.
  void expect_one_stage(int64_t data_ranks, const Keys& more = {}) {
    Keys unclipped = more;
    unclipped.emplace_back("optimizer.clip=0.0");
    const Result one = run(data_ranks, unclipped);
    for (const Keys& pipeline :
         std::vector<Keys>{{"layout.pipeline=2", "layout.schedule=gpipe"},
                           {"layout.pipeline=2"},
                           {"layout.pipeline=3"},
                           {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"},
                           {"layout.pipeline=2", "layout.schedule=zb-h1"},
                           {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"}}) {
      SCOPED_TRACE(pipeline.front() + " " + pipeline.back());
      Keys keys = unclipped;
      keys.insert(keys.end(), pipeline.begin(), pipeline.end());
      const int64_t stages = pipeline.front().back() - '0';
      const Result ours = run(stages * data_ranks, keys);
      ASSERT_EQ(ours.tensors.size(), one.tensors.size());
      for (const auto& [name, tensor] : ours.tensors) EXPECT_TRUE(tensor.equal(one.tensors.at(name))) << name;
    }
  }
};

TEST_F(FamilyLayouts, EveryShardingTrainsToTheLastBit) { expect_equal(parallel::all_layouts(), {}); }

TEST_F(FamilyLayouts, SomeDoInBf16WithRecomputeAndAccumulation) {
  expect_equal(parallel::some_layouts(),
               {"train.precision=bf16", "train.recompute=full", "train.global_batch=11", "train.micro_batch=1"});
}

TEST_F(FamilyLayouts, PipelinesTrainAsOneStageDoes) {
  expect_one_stage(1, {"train.micro_batch=1"});
  expect_one_stage(2, {"train.recompute=full"});
}

TEST_F(FamilyLayouts, PipelinesOfManyRanksHaveRanksWithoutSamples) {
  expect_one_stage(4, {"train.global_batch=3", "train.micro_batch=1", "layout.sharding=zero1"});
}

TEST_F(FamilyLayouts, AreHeldByVerify) {
  for (const Keys& keys : std::vector<Keys>{{"layout.sharding=zero3", "train.global_batch=8"},
                                            {"layout.sharding=zero1", "train.precision=bf16", "train.global_batch=8"},
                                            {"layout.pipeline=2", "train.global_batch=8", "optimizer.clip=0.0"}}) {
    const verify::Verdict verdict = verify::verify(config(keys), {.ranks = 2});
    EXPECT_TRUE(verdict.holds()) << keys.front() << "\n" << verify::text(verdict);
  }
}

}  // namespace
}  // namespace terrace::pair
