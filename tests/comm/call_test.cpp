// Calls as data: names, sizes and counted bytes; and the part that all backends share.
#include "terrace/comm/call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

TEST(Label, SaysWhatIsKnown) {
  EXPECT_EQ(to_string({"gather weights", 7, "backward", 2}), "gather weights, segment 7, backward, micro-batch 2");
  EXPECT_EQ(to_string({.what = "norm", .phase = "step"}), "norm, step");
  EXPECT_EQ(to_string({.segment = 0}), "segment 0");
  EXPECT_EQ(to_string({}), "");
}

// 12 elements of 2 bytes among 3: of the whole buffer, or of one block.
TEST(SentBytes, FollowTheFormulas) {
  const auto sent = [](Kind kind, int64_t member = 0) {
    return sent_bytes({.kind = kind, .type = Type::bf16, .count = 12, .peer = 1}, 3, member);
  };
  EXPECT_EQ(sent(Kind::all_reduce), 32);  // 2 * 24 * 2 / 3
  EXPECT_EQ(sent(Kind::reduce_scatter), 48);
  EXPECT_EQ(sent(Kind::all_gather), 48);
  EXPECT_EQ(sent(Kind::all_to_all), 48);
  EXPECT_EQ(sent(Kind::broadcast, 0), 0);
  EXPECT_EQ(sent(Kind::broadcast, 1), 24);
  EXPECT_EQ(sent(Kind::send), 24);
  EXPECT_EQ(sent(Kind::receive), 0);
  EXPECT_EQ(sent(Kind::barrier), 0);
  EXPECT_EQ(sent_bytes({.kind = Kind::all_reduce, .type = Type::uint8, .count = 5}, 3, 0), 6);  // 6.67
}

TEST(SentBytes, NoneInAGroupOfOne) {
  for (const Kind kind :
       {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all, Kind::broadcast}) {
    EXPECT_EQ(sent_bytes({.kind = kind, .type = Type::fp64, .count = 3, .peer = 0}, 1, 0), 0) << name_of(kind);
  }
}

TEST(Traffic, CountsCallsAndBytesByKind) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect({"data", {1, 0}});
    std::vector<float> data(10);
    for (int i = 0; i < 3; ++i) comm->all_reduce(data.data(), 10, Type::fp32, {}).wait();
    comm->broadcast(data.data(), 10, Type::fp32, 1, {}).wait();
    comm->all_gather(data.data(), data.data(), 0, Type::fp32, {}).wait();
    EXPECT_EQ(comm->traffic(Kind::all_reduce).calls, 3);
    EXPECT_EQ(comm->traffic(Kind::all_reduce).bytes, 3 * 40);
    EXPECT_EQ(comm->traffic(Kind::broadcast).bytes, world.rank() == 0 ? 40 : 0);
    EXPECT_EQ(comm->traffic(Kind::all_gather).calls, 1);
    EXPECT_EQ(comm->traffic(Kind::all_gather).bytes, 0);
    EXPECT_EQ(comm->traffic(Kind::barrier).calls, 0);
    comm->reset_traffic();
    EXPECT_EQ(comm->traffic(Kind::all_reduce).calls, 0);
  });
}

TEST(Traffic, ExposedSecondsAreThoseOfWaiting) {
  std::atomic<bool> waits = false;
  run_threads(2, {}, [&](World& world) {
    const auto comm = world.connect({"data", {0, 1}});
    if (world.rank() == 1) {
      while (!waits) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    Work work = comm->barrier({});
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto begin = std::chrono::steady_clock::now();
    waits = true;
    work.wait();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    const Traffic& traffic = comm->traffic(Kind::barrier);
    if (world.rank() == 0) {
      EXPECT_GT(traffic.exposed_seconds, 0);
    }
    EXPECT_LE(traffic.exposed_seconds, waited.count());
    EXPECT_GE(traffic.moving_seconds, traffic.exposed_seconds);
  });
}

TEST(SoloWorld, CompletesEveryOperationAtOnce) {
  const auto world = make_solo_world();
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->ranks_per_node(), 1);
  EXPECT_EQ(wrong_operations(*world, {"data", {0}}, {0, 1}, 1000), std::vector<std::string>{});
}

}  // namespace
}  // namespace terrace::comm
