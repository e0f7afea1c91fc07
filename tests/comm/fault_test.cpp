// Calls that are late, dropped or corrupted on one rank, and their effect on the other ranks.
#include "terrace/comm/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "terrace/comm/threads/threads.h"

namespace terrace::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Fault on_rank(int64_t rank, uint64_t sequence, Fault::Effect effect, double delay_seconds = 0) {
  const auto hits = [=](int64_t of, const mesh::Group&, const Call& call) {
    return of == rank && call.sequence == sequence;
  };
  return {.effect = effect, .hits = hits, .delay_seconds = delay_seconds};
}

// Three ranks add up three times; what each saw is returned by rank.
std::vector<std::vector<int64_t>> sums_with(const Fault& fault, const WorldOptions& options = {}) {
  std::vector<std::vector<int64_t>> sums(3);
  run_threads(3, options, [&](World& inner) {
    const auto world = make_faulty_world(inner, {fault});
    const auto comm = world->connect({"data", {0, 1, 2}});
    for (int64_t i = 1; i <= 3; ++i) {
      int64_t sum = 10 * i;
      comm->all_reduce(&sum, 1, Type::int64, {"sum", i, "step"}).wait();
      sums[static_cast<size_t>(world->rank())].push_back(sum);
    }
  });
  return sums;
}

TEST(Fault, DelayOfACallChangesNoResult) {
  const std::vector<int64_t> right = {30, 60, 90};
  EXPECT_EQ(sums_with(on_rank(1, 2, Fault::Effect::delay, 0.02)),
            (std::vector<std::vector<int64_t>>{right, right, right}));
}

TEST(Fault, DelayBeyondTheTimeOutFails) {
  const auto run = [] { sums_with(on_rank(1, 2, Fault::Effect::delay, 1.5), {.timeout_seconds = 0.5}); };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(AllOf(HasSubstr(
                       "all_reduce(data), sum, segment 2, step, call 2; rank 1 never entered it; its last call is "
                       "all_reduce(data), sum, segment 1, step, call 1"))));
}

// From then on rank 1 is one call ahead of the others, and nobody joins its last one.
TEST(Fault, DropOfACallLeavesTheOthersWaiting) {
  const auto run = [] { sums_with(on_rank(1, 2, Fault::Effect::drop), {.timeout_seconds = 10}); };
  EXPECT_THAT(
      run, testing::ThrowsMessage<CommError>(AllOf(HasSubstr("rank 1 has ended"),
                                                   HasSubstr("waits in all_reduce(data), sum, segment 3, step, call 3"),
                                                   HasSubstr("rank 1 never entered it"))));
}

TEST(Fault, DropOfACallIsFoundAtOnceWhereCallsAreChecked) {
  const auto run = [] { sums_with(on_rank(1, 2, Fault::Effect::drop), {.check_calls = true}); };
  EXPECT_THAT(
      run, testing::ThrowsMessage<CommError>(AllOf(HasSubstr("rank 0 makes all_reduce(data), sum, segment 2, step"),
                                                   HasSubstr("rank 1 makes all_reduce(data), sum, segment 3, step"))));
}

TEST(Fault, CorruptionTurnsOneBitOnOneRank) {
  const std::vector<int64_t> right = {30, 60, 90};
  const int64_t wrong = 60 ^ (int64_t{1} << 32);  // the lowest bit of byte 4 of 8
  EXPECT_EQ(sums_with(on_rank(1, 2, Fault::Effect::corrupt)),
            (std::vector<std::vector<int64_t>>{right, {30, wrong, 90}, right}));
}

TEST(Fault, CorruptionOfASendLeavesTheSendersDataAlone) {
  run_threads(2, {}, [](World& inner) {
    const auto world = make_faulty_world(inner, {on_rank(0, 1, Fault::Effect::corrupt)});
    const auto comm = world->connect({"pair", {0, 1}});
    std::vector<uint8_t> data = {2, 4, 6};
    if (world->rank() == 0) {
      comm->send(data.data(), 3, Type::uint8, 1, {}).wait();
      EXPECT_EQ(data, (std::vector<uint8_t>{2, 4, 6}));
    } else {
      comm->receive(data.data(), 3, Type::uint8, 0, {}).wait();
      EXPECT_EQ(data, (std::vector<uint8_t>{2, 5, 6}));
    }
  });
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

// Times are at least those that the fault adds; how much longer they are depends on what else runs.
TEST(Fault, SlowRankComputesLongerBetweenItsCallsAndDoesNotCountItsWaits) {
  std::atomic<bool> active = false;
  std::vector<double> seconds(2);
  run_threads(2, {}, [&](World& inner) {
    const auto world = make_faulty_world(inner, {slow_rank(1, 3, &active)});
    const auto comm = world->connect({"data", {0, 1}});
    comm->barrier({}).wait();
    active = true;
    comm->barrier({}).wait();
    // Rank 1 waits here for rank 0, which computes for longer.
    if (world->rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    comm->barrier({}).wait();
    const auto began = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm->barrier({}).wait();
    seconds[static_cast<size_t>(world->rank())] = seconds_since(began);
  });
  for (const double one : seconds) {
    EXPECT_GE(one, 0.08);
    EXPECT_LT(one, 0.9);  // three times the wait, if it counted as computing
  }
}

TEST(Fault, SlowLinkDelaysMessagesBetweenTwoRanksAndCollectivesWithBoth) {
  run_threads(3, {}, [&](World& inner) {
    const auto world = make_faulty_world(inner, {slow_link(0, 2, 0.01)});
    const auto all = world->connect({"data", {0, 1, 2}});
    std::vector<uint8_t> data(4, static_cast<uint8_t>(world->rank()));
    const auto began = Clock::now();
    if (world->rank() == 0) all->send(data.data(), 4, Type::uint8, 2, {}).wait();
    if (world->rank() == 2) {
      all->receive(data.data(), 4, Type::uint8, 0, {}).wait();
      EXPECT_GE(seconds_since(began), 0.04);
      EXPECT_EQ(data.front(), 0);
    }
    const auto gathers = Clock::now();
    std::vector<uint8_t> gathered(12);
    all->all_gather(data.data(), gathered.data(), 4, Type::uint8, {}).wait();
    EXPECT_GE(seconds_since(gathers), 0.08);  // each member sends two blocks of four bytes
    EXPECT_EQ(gathered[4], 1);
  });
}

// The waits of a rank in two groups, of which the second is not counted any more.
TEST(WaitTime, AddsTheWaitsOfGroupsThatAddToIt) {
  run_threads(2, {}, [](World& world) {
    WaitTime waits;
    const auto one = world.connect({"data", {0, 1}}), other = world.connect({"tensor", {0, 1}});
    one->barrier({}).wait();
    for (const auto& comm : {one.get(), other.get()}) comm->add_waits_to(&waits);
    other->add_waits_to(nullptr);
    const auto late = [&](Comm& comm) {
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      comm.barrier({}).wait();
    };
    late(*one);
    const double first = waits.seconds;
    EXPECT_GE(first, world.rank() == 0 ? 0.02 : 0.0);
    late(*other);
    EXPECT_EQ(waits.seconds, first);
  });
}

}  // namespace
}  // namespace terrace::comm
