// A rank that computes slowly is named within ten steps, and nobody else; tests of rehearsals name links too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/system/core_wait.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/link_probe.h"
#include "tests/run/watched_run.h"

namespace terrace::run {
namespace {

using observe::Slowness;
using testing::HasSubstr;

class Watch : public WatchedRun {
 protected:
  std::vector<Slowness> named_with(int64_t ranks, const std::vector<std::string>& keys, const comm::Fault& fault) {
    write_corpus(400, "corpus");
    comm::run_threads(ranks, {.timeout_seconds = 100}, [&](comm::World& inner) { train_watched(inner, keys, fault); });
    return named();
  }
};

// The stages, tensor ranks and data-parallel ranks of the slow rank wait for it.
TEST_F(Watch, NamesTheRankThatComputesSlowlyAndNotThoseThatWaitForIt) {
  const std::vector<Slowness> all = named_with(16, {"layout.pipeline=2", "layout.tensor=2", "layout.sharding=zero2"},
                                               comm::slow_rank(5, 0.8, active()));
  std::string texts;
  for (const Slowness& one : all) texts += one.text + "\n";
  ASSERT_EQ(all.size(), 1u) << texts;
  EXPECT_EQ(all.front().what, "rank");
  EXPECT_EQ(all.front().rank, 5);
  EXPECT_GE(all.front().step, slow_from);
  EXPECT_LE(all.front().step, slow_from + 9);
  EXPECT_GT(all.front().excess, 0.4);
  EXPECT_THAT(all.front().text, HasSubstr("rank 5 (node "));
  const observe::StepMetrics last = observe::read_metrics(run_folder()).steps.rbegin()->second;
  ASSERT_TRUE(last.watch);
  EXPECT_EQ(last.watch->slowest_rank, 5);
  EXPECT_EQ(last.watch->slow_ranks, 1);
}

TEST(LinkProbe, FindsBothDirectionsOfTheSlowLink) {
  std::vector<SlowLink> slow;
  std::atomic<bool> active = false;
  comm::run_threads(5, {}, [&](comm::World& inner) {
    const auto world = comm::make_faulty_world(inner, {comm::slow_link(1, 3, 1e-7, &active)});
    const auto group = world->connect({"data", {0, 1, 2, 3, 4}}), all = world->connect({"control", {0, 1, 2, 3, 4}});
    LinkProbe probe({group.get()}, *all);
    probe.measure_usual();
    all->barrier({}).wait();
    active = true;
    const std::vector<SlowLink> found = probe.find_slow();
    if (world->rank() == 0) slow = found;
  });
  ASSERT_EQ(slow.size(), 2u);
  for (const SlowLink& link : slow) EXPECT_EQ(link.from + link.to, 4);
  EXPECT_THAT(text_of(slow), HasSubstr("is an end of all of them"));
}

}  // namespace
}  // namespace terrace::run
