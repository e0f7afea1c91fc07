// Weights that are gathered ahead of their use: the next ones, in whichever order the uses come.
#include <gtest/gtest.h>

#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

using Use = std::function<void(Sharded&, const std::vector<int64_t>& unit_bytes)>;

// On two ranks that have cut all weights of a small GPT.
void on_two_ranks(int64_t prefetch, const Use& use) {
  config::LayoutConfig layout;
  layout.sharding = config::Sharding::zero3;
  layout.prefetch = prefetch;
  comm::run_threads(2, {}, [&](comm::World& world) {
    const auto model = small_model({}, at::kFloat);
    CutModel cut(*model, world, train::mesh_of(layout, 2, 2), layout, sharding_options(layout, at::kFloat));
    std::vector<int64_t> unit_bytes;
    for (const optim::Shard& shard : cut.shards) unit_bytes.push_back(2 * static_cast<int64_t>(shard.value.nbytes()));
    use(cut.sharded, unit_bytes);
  });
}

TEST(Prefetch, FollowsTheUsesFromOneComputationToTheNext) {
  on_two_ranks(1, [](Sharded& sharded, const std::vector<int64_t>& bytes) {
    // Two micro-batches of a chunk.
    sharded.expect({{1, "forward"}, {2, "forward"}, {1, "forward"}, {2, "forward"}});
    sharded.before_forward(1);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[1] + bytes[2]);
    sharded.after_forward(1);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[2]);
    sharded.before_forward(2);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[2] + bytes[1]);
    sharded.after_forward(2);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[1]);
    for (const int64_t unit : {1, 2}) {
      sharded.before_forward(unit);
      sharded.after_forward(unit);
    }
    EXPECT_EQ(sharded.bytes().gathered_weights, 0);
  });
}

TEST(Prefetch, GathersAUnitAgainThatIsUsedTwiceInARow) {
  on_two_ranks(1, [](Sharded& sharded, const std::vector<int64_t>& bytes) {
    sharded.expect({{2, "forward"}, {2, "backward"}, {1, "backward"}});
    sharded.before_forward(2);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[2]);
    sharded.after_forward(2);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[2]);
    sharded.before_backward(2);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[2] + bytes[1]);
    sharded.after_backward(2, false);
    sharded.before_backward(1);
    sharded.after_backward(1, false);
    sharded.finish_gradients();
    EXPECT_EQ(sharded.bytes().gathered_weights, 0);
  });
}

TEST(Prefetch, OfNoneGathersWhatIsUsed) {
  on_two_ranks(0, [](Sharded& sharded, const std::vector<int64_t>& bytes) {
    sharded.expect({{1, "forward"}, {2, "forward"}});
    sharded.before_forward(1);
    EXPECT_EQ(sharded.bytes().gathered_weights, bytes[1]);
    sharded.after_forward(1);
    EXPECT_EQ(sharded.bytes().gathered_weights, 0);
  });
}

// All ranks meet in gathers, so they use units in one order.
TEST(PrefetchDeathTest, AUseInAnotherOrder) {
  const Use other_order = [](Sharded& sharded, const std::vector<int64_t>&) {
    sharded.expect({{1, "forward"}, {2, "forward"}});
    sharded.before_forward(2);
  };
  EXPECT_DEATH(on_two_ranks(1, other_order), "unit 2 is used where unit 1 was expected");
}

}  // namespace
}  // namespace terrace::parallel
