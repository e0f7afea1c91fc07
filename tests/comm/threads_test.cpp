// Ranks as threads: all operations at all sizes, any order of waiting, and sums in the order of ranks.
#include "terrace/comm/threads/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/error.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

mesh::Group everyone(const World& world, const std::string& name = "data") {
  return mesh::all_ranks(name, world.size());
}

class Threads : public testing::TestWithParam<int64_t> {};

// 35,000 bytes are one whole piece and a shorter one.
TEST_P(Threads, EveryOperationWithEveryTypeAndSize) {
  run_threads(GetParam(), {}, [](World& world) {
    EXPECT_EQ(wrong_operations(world, everyone(world), {0, 1, 3, 1000}, 35000), std::vector<std::string>{});
  });
}

TEST_P(Threads, EveryOperationInAGroupInAnotherOrder) {
  run_threads(GetParam(), {}, [](World& world) {
    std::vector<int64_t> ranks = everyone(world).ranks;
    std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());
    std::reverse(ranks.begin(), ranks.begin() + world.size() / 2);
    EXPECT_EQ(wrong_operations(world, {"data", std::move(ranks)}, {3}, 35000), std::vector<std::string>{});
  });
}

TEST_P(Threads, WaitForOutstandingCallsInAnyOrder) {
  constexpr int64_t calls = 100;
  run_threads(GetParam(), {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    std::vector<std::vector<float>> sums, gathered;
    std::vector<Work> works;
    for (int64_t i = 0; i < calls; ++i) {
      const int64_t count = i % 3 == 0 ? 20000 : i;
      sums.emplace_back(static_cast<size_t>(count), static_cast<float>(i + world.rank()));
      gathered.emplace_back(static_cast<size_t>(world.size()));
    }
    for (int64_t i = 0; i < calls; ++i) {
      auto& sum = sums[static_cast<size_t>(i)];
      works.push_back(comm->all_reduce(sum.data(), static_cast<int64_t>(sum.size()), Type::fp32, {}));
      auto& blocks = gathered[static_cast<size_t>(i)];
      blocks[static_cast<size_t>(world.rank())] = static_cast<float>(100 * world.rank() + i);
      works.push_back(comm->all_gather(&blocks[static_cast<size_t>(world.rank())], blocks.data(), 1, Type::fp32, {}));
    }
    // Each rank waits for its calls in another order.
    for (size_t i = 0; i < works.size(); ++i) works[(i * 7 + static_cast<size_t>(world.rank())) % works.size()].wait();
    for (int64_t i = 0; i < calls; ++i) {
      const int64_t pairs = world.size() * (world.size() - 1) / 2;
      const auto expected = static_cast<float>(world.size() * i + pairs);
      for (const float sum : sums[static_cast<size_t>(i)]) ASSERT_EQ(sum, expected);
      for (int64_t r = 0; r < world.size(); ++r) {
        ASSERT_EQ(gathered[static_cast<size_t>(i)][static_cast<size_t>(r)], static_cast<float>(100 * r + i));
      }
    }
  });
}

TEST_P(Threads, MakeManyCallsOneAfterTheOther) {
  run_threads(GetParam(), {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    for (int64_t i = 0; i < 500; ++i) {
      int64_t sum = i * world.rank();
      comm->all_reduce(&sum, 1, Type::int64, {}).wait();
      ASSERT_EQ(sum, i * world.size() * (world.size() - 1) / 2);
      if (i % 50 == 0) comm->barrier({}).wait();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Threads, testing::Values(1, 2, 3, 4, 8));

// 2^24 + 1 + 1 is 2^24 + 2 from the right and 2^24 from the left, in fp32.
TEST(ThreadSums, RankOrderInAGroupOfAnyOrder) {
  for (const Type type : {Type::fp32, Type::fp64}) {
    const double large = type == Type::fp32 ? 0x1p24 : 0x1p53;
    for (const std::vector<int64_t>& order : {std::vector<int64_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
      run_threads(3, {}, [&](World& world) {
        const auto comm = world.connect({"permuted", order});
        const double own = world.rank() == 0 ? large : 1.0;
        std::vector<float> singles(3, static_cast<float>(own));
        std::vector<double> doubles(3, own);
        void* const data = type == Type::fp32 ? static_cast<void*>(singles.data()) : doubles.data();
        void* const block = static_cast<char*>(data) + comm->member() * size_of(type);
        comm->reduce_scatter(data, block, 1, type, {}).wait();
        const double scattered = type == Type::fp32 ? *static_cast<float*>(block) : *static_cast<double*>(block);
        EXPECT_EQ(scattered, large);
        std::fill(singles.begin(), singles.end(), static_cast<float>(own));
        std::fill(doubles.begin(), doubles.end(), own);
        comm->all_reduce(data, 3, type, {}).wait();
        EXPECT_EQ(type == Type::fp32 ? singles[1] : doubles[1], large);
      });
    }
  }
}

TEST(ThreadGroups, CallsOfOverlappingGroupsStayApart) {
  run_threads(4, {}, [](World& world) {
    const mesh::Group pair = world.rank() % 2 == 0 ? mesh::Group{"pair", {0, 2}} : mesh::Group{"pair", {3, 1}};
    const auto first = world.connect(pair), second = world.connect(pair), all = world.connect(everyone(world));
    int64_t a = world.rank(), b = 10 * world.rank(), c = 100 * world.rank();
    Work of_second = second->all_reduce(&b, 1, Type::int64, {});
    Work of_all = all->all_reduce(&c, 1, Type::int64, {});
    Work of_first = first->all_reduce(&a, 1, Type::int64, {});
    of_first.wait();
    of_all.wait();
    of_second.wait();
    EXPECT_EQ(a, world.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(b, world.rank() % 2 == 0 ? 20 : 40);
    EXPECT_EQ(c, 600);
  });
}

TEST(ThreadSends, PairUpByPeerAndOrderAmongOtherCalls) {
  run_threads(3, {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    if (world.rank() == 0) {
      std::vector<int64_t> from_one(2), from_two(2);
      Work b1 = comm->receive(&from_two[0], 1, Type::int64, 2, {});
      Work a1 = comm->receive(&from_one[0], 1, Type::int64, 1, {});
      Work a2 = comm->receive(&from_one[1], 1, Type::int64, 1, {});
      Work b2 = comm->receive(&from_two[1], 1, Type::int64, 2, {});
      comm->barrier({}).wait();
      for (Work* work : {&a2, &b2, &a1, &b1}) work->wait();
      EXPECT_EQ(from_one, (std::vector<int64_t>{10, 11}));
      EXPECT_EQ(from_two, (std::vector<int64_t>{20, 21}));
      return;
    }
    const std::vector<int64_t> values = {10 * world.rank(), 10 * world.rank() + 1};
    Work first = comm->send(&values[0], 1, Type::int64, 0, {});
    Work second = comm->send(&values[1], 1, Type::int64, 0, {});
    comm->barrier({}).wait();
    second.wait();
    first.wait();
  });
}

TEST_P(Threads, AMessageDoesNotWaitForACollectiveOfAnotherGroup) {
  for (const int64_t count : {1, 100'000}) {
    run_threads(GetParam(), {.timeout_seconds = 20},
                [&](World& world) { EXPECT_TRUE(passes_message_beside_collective(world, count)); });
  }
}

// The peer posts its call and computes; it waits only after the call is done.
TEST(ThreadCalls, CompleteWhileThePeerComputes) {
  std::atomic<bool> completed = false;
  run_threads(2, {}, [&](World& world) {
    const auto comm = world.connect(everyone(world));
    std::vector<float> data(1 << 20, 1.0F);
    Work work = comm->all_reduce(data.data(), 1 << 20, Type::fp32, {});
    if (world.rank() == 0) {
      work.wait();
      completed = true;
    } else {
      while (!completed) std::this_thread::sleep_for(1ms);
      EXPECT_TRUE(work.done());
    }
    work.wait();
    EXPECT_EQ(data.back(), 2.0F);
  });
}

// Copies of 12 MiB and more bypass the caches.
TEST(ThreadCalls, ManyMegabytesAreExact) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    constexpr int64_t count = (4 << 20) + 3;
    std::vector<float> data(count), received(count);
    std::iota(data.begin(), data.end(), static_cast<float>(world.rank()));
    Work sent = comm->send(data.data(), count, Type::fp32, 1 - world.rank(), {});
    comm->receive(received.data(), count, Type::fp32, 1 - world.rank(), {}).wait();
    sent.wait();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(received[static_cast<size_t>(i)], static_cast<float>(i + 1 - world.rank()));
    }
  });
}

TEST(ThreadCalls, ProgressWhenTheyArePolled) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    std::vector<float> data(1 << 18, 1.0F);
    Work work = comm->all_reduce(data.data(), 1 << 18, Type::fp32, {});
    while (!work.done()) std::this_thread::yield();
    EXPECT_EQ(data.front() + data.back(), 4.0F);
  });
}

TEST(ThreadCalls, DestructorOfWorkWaitsForItsCall) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect(everyone(world));
    std::vector<float> data(1 << 18, 1.0F), other(4, 1.0F);
    {
      Work work = comm->all_reduce(data.data(), 1 << 18, Type::fp32, {});
      work = comm->all_reduce(other.data(), 4, Type::fp32, {});
      EXPECT_EQ(data.back(), 2.0F);
    }
    EXPECT_EQ(other.back(), 2.0F);
  });
}

TEST(ThreadRanks, RefusesGpusForSeveralThreadRanks) {
  run_threads(1, {}, [](World& world) { world.use_gpu(0); });
  try {
    run_threads(2, {}, [](World& world) { world.use_gpu(0); });
    ADD_FAILURE() << "not refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("mpirun -n 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace terrace::comm
