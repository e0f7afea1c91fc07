// Ranks as processes under mpirun or srun: every rank runs all cases, each on a world of its own over one start of MPI.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/comm/threads/threads.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<MpiLibrary> library;

// With these limits short buffers take the paths of long ones: calls and sums in several pieces.
const MpiLimits small_limits = {
    .elements_per_call = 1000, .piece_bytes = 1024, .gathered_bytes = 64, .ring_members = 0};
// Limits of shared memory: a ring of one slot, and a ring whose slots hold several pieces and are used again and again.
const MpiLimits one_slot = {.rings = {.slots = 1, .slot_bytes = 512}};
const MpiLimits small_rings = {.rings = {.slots = 5, .slot_bytes = 640}};
// Every operation is MPI's own.
constexpr int64_t never = int64_t{1} << 60;
const MpiLimits native = {.direct_members = 0, .direct_part_bytes = never, .ring_members = 0};
const MpiLimits native_in_pieces = {
    .elements_per_call = 4000, .direct_members = 0, .direct_part_bytes = never, .ring_members = 0};

mesh::Group everyone(const World& world) { return mesh::all_ranks("data", world.size()); }

mesh::Group in_another_order(const World& world) {
  std::vector<int64_t> ranks = everyone(world).ranks;
  std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());
  std::reverse(ranks.begin(), ranks.begin() + world.size() / 2);
  return {"data", std::move(ranks)};
}

struct Way {
  const char* name;
  WorldOptions options;
  MpiLimits limits;
};

class MpiWays : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<World> make_world() const { return make_mpi_world(library, GetParam().options, GetParam().limits); }
};

TEST_P(MpiWays, EveryOperationWithEveryTypeAndSize) {
  const auto world = make_world();
  EXPECT_EQ(wrong_operations(*world, everyone(*world), {0, 1, 3, 1000}, 20000), std::vector<std::string>{});
}

TEST_P(MpiWays, EveryOperationInAGroupInAnotherOrder) {
  const auto world = make_world();
  EXPECT_EQ(wrong_operations(*world, in_another_order(*world), {3}, 20000), std::vector<std::string>{});
}

TEST_P(MpiWays, WaitForOutstandingCallsInAnyOrder) {
  constexpr int64_t calls = 60;
  const auto world = make_world();
  const auto comm = world->connect(everyone(*world));
  std::deque<std::vector<float>> sums, gathered;
  std::vector<Work> works;
  for (int64_t i = 0; i < calls; ++i) {
    auto& sum = sums.emplace_back(static_cast<size_t>(i % 3 == 0 ? 20000 : i), static_cast<float>(i + world->rank()));
    works.push_back(comm->all_reduce(sum.data(), static_cast<int64_t>(sum.size()), Type::fp32, {}));
    auto& blocks = gathered.emplace_back(static_cast<size_t>(world->size()));
    float& own = blocks[static_cast<size_t>(world->rank())] = static_cast<float>(100 * world->rank() + i);
    works.push_back(comm->all_gather(&own, blocks.data(), 1, Type::fp32, {}));
  }
  for (size_t i = 0; i < works.size(); ++i) works[(i * 7 + static_cast<size_t>(world->rank())) % works.size()].wait();
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t sum_of_ranks = world->size() * (world->size() - 1) / 2;
    const auto expected = static_cast<float>(world->size() * i + sum_of_ranks);
    for (const float sum : sums[static_cast<size_t>(i)]) ASSERT_EQ(sum, expected);
    for (int64_t r = 0; r < world->size(); ++r) {
      ASSERT_EQ(gathered[static_cast<size_t>(i)][static_cast<size_t>(r)], static_cast<float>(100 * r + i));
    }
  }
}

// Messages of several sizes between all members, all sent before any is received: more than the rings hold.
TEST_P(MpiWays, KeepMessagesInTheirOrder) {
  constexpr int64_t messages = 40;
  const auto world = make_world();
  const auto comm = world->connect(in_another_order(*world));
  const auto count_of = [](int64_t i) { return i % 4 == 3 ? 3000 : i; };
  const auto value_of = [&](int64_t from, int64_t to, int64_t i) {
    return static_cast<float>(100 * (10 * from + to) + i);
  };
  std::deque<std::vector<float>> sent, received;
  std::vector<Work> works;
  for (int64_t i = 0; i < messages; ++i) {
    for (int64_t other = 0; other < comm->size(); ++other) {
      if (other == comm->member()) continue;
      const auto& data = sent.emplace_back(static_cast<size_t>(count_of(i)), value_of(comm->member(), other, i));
      works.push_back(comm->send(data.data(), count_of(i), Type::fp32, other, {}));
    }
  }
  for (int64_t i = 0; i < messages; ++i) {
    for (int64_t other = 0; other < comm->size(); ++other) {
      if (other == comm->member()) continue;
      auto& data = received.emplace_back(static_cast<size_t>(count_of(i)));
      works.push_back(comm->receive(data.data(), count_of(i), Type::fp32, other, {}));
    }
  }
  for (Work& work : works) work.wait();
  auto found = received.begin();
  for (int64_t i = 0; i < messages; ++i) {
    for (int64_t other = 0; other < comm->size(); ++other) {
      if (other == comm->member()) continue;
      for (const float value : *found++) ASSERT_EQ(value, value_of(other, comm->member(), i));
    }
  }
}

TEST_P(MpiWays, AMessageDoesNotWaitForACollectiveOfAnotherGroup) {
  const auto world = make_world();
  for (const int64_t count : {1, 100'000}) EXPECT_TRUE(passes_message_beside_collective(*world, count)) << count;
}

INSTANTIATE_TEST_SUITE_P(All, MpiWays,
                         testing::Values(Way{"Default", {}, {}}, Way{"Direct", {}, {.ring_members = 0}},
                                         Way{"InPieces", {}, small_limits}, Way{"InOneSlot", {}, one_slot},
                                         Way{"InSmallRings", {.rank_order = true}, small_rings},
                                         Way{"Native", {}, native}, Way{"NativeInPieces", {}, native_in_pieces},
                                         Way{"RankOrder", {.rank_order = true}, native},
                                         Way{"Checked", {.check_calls = true}, {}},
                                         Way{"CheckedDirect", {.check_calls = true}, {.ring_members = 0}},
                                         Way{"CheckedNative", {.check_calls = true}, native}),
                         [](const auto& way) { return way.param.name; });

// Fractions whose sums round.
std::vector<char> rough_data(Type type, int64_t rank, int64_t count) {
  std::mt19937 random(static_cast<uint32_t>(rank));
  std::vector<char> bytes(static_cast<size_t>(count * size_of(type)));
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::ldexp(1.0 + random() * 0x1p-32, -static_cast<int>(random() % 8));
    const auto single = static_cast<float>(value);
    const auto of_single = static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
    const auto between_1_and_2 = static_cast<uint16_t>(0x3c00U + random() % 1024);
    const void* const element = type == Type::fp64   ? static_cast<const void*>(&value)
                                : type == Type::fp32 ? static_cast<const void*>(&single)
                                : type == Type::bf16 ? &of_single
                                                     : &between_1_and_2;
    std::memcpy(bytes.data() + i * size_of(type), element, static_cast<size_t>(size_of(type)));
  }
  return bytes;
}

// The results of an all_reduce and a reduce_scatter in the group, on this rank.
std::vector<char> sums_of(World& world, const mesh::Group& group, Type type, int64_t count) {
  const auto comm = world.connect(group);
  std::vector<char> all = rough_data(type, world.rank(), count);
  comm->all_reduce(all.data(), count, type, {"sum"}).wait();
  const std::vector<char> terms = rough_data(type, world.rank() + 100, count * world.size());
  std::vector<char> block(all.size());
  comm->reduce_scatter(terms.data(), block.data(), count, type, {"scatter"}).wait();
  all.insert(all.end(), block.begin(), block.end());
  return all;
}

TEST(MpiSums, RankOrderGivesTheBitsOfThreads) {
  for (const MpiLimits& limits : {MpiLimits{}, small_limits, one_slot, small_rings}) {
    const auto world = make_mpi_world(library, {.rank_order = true}, limits);
    for (const mesh::Group& group : {everyone(*world), in_another_order(*world)}) {
      for (const Type type : {Type::fp64, Type::fp32, Type::bf16, Type::fp16}) {
        for (const int64_t count : {1, 5, 3001}) {
          const std::vector<char> found = sums_of(*world, group, type, count);
          std::vector<char> expected;
          run_threads(world->size(), {}, [&](World& threads) {
            const std::vector<char> theirs = sums_of(threads, group, type, count);
            if (threads.rank() == world->rank()) expected = theirs;
          });
          EXPECT_EQ(found, expected) << name_of(type) << " " << count;
        }
      }
    }
  }
}

TEST(MpiGroups, CallsOfOverlappingGroupsStayApart) {
  const auto world = make_mpi_world(library, {});
  const int64_t neighbour = world->rank() ^ 1;
  mesh::Group pair{"pair", {world->rank()}};
  if (neighbour < world->size()) pair.ranks = {std::max(world->rank(), neighbour), std::min(world->rank(), neighbour)};
  const auto first = world->connect(pair), second = world->connect(pair), all = world->connect(everyone(*world));
  int64_t a = world->rank(), b = 10 * world->rank(), c = 100 * world->rank();
  Work of_second = second->all_reduce(&b, 1, Type::int64, {});
  Work of_all = all->all_reduce(&c, 1, Type::int64, {});
  Work of_first = first->all_reduce(&a, 1, Type::int64, {});
  of_first.wait();
  of_all.wait();
  of_second.wait();
  const int64_t sum = std::accumulate(pair.ranks.begin(), pair.ranks.end(), int64_t{0});
  EXPECT_EQ(a, sum);
  EXPECT_EQ(b, 10 * sum);
  EXPECT_EQ(c, 100 * world->size() * (world->size() - 1) / 2);
}

// A file by which a rank tells another one, without MPI, that it is through with what has this number.
std::filesystem::path sign_of(int64_t rank, int64_t number) {
  return std::filesystem::temp_directory_path() / fmt::format("terrace_ranks_{}_{}", number, rank);
}

// Rank 0 computes, as far as MPI can see, until the others are through: it waits for them without a call.
TEST(MpiCalls, CompleteWhileAPeerComputes) {
  for (const MpiLimits& limits : {MpiLimits{}, MpiLimits{.ring_members = 0}, native}) {
    const auto world = make_mpi_world(library, {}, limits);
    const auto comm = world->connect(everyone(*world));
    std::vector<float> data(1 << 20, 1.0F);
    // The number is the same on all ranks, which may have process numbers of different namespaces.
    int64_t number = std::chrono::steady_clock::now().time_since_epoch().count();
    comm->broadcast(&number, 1, Type::int64, 0, {}).wait();
    Work work = comm->all_reduce(data.data(), 1 << 20, Type::fp32, {"sum"});
    const int64_t others = world->rank() == 0 ? world->size() : 0;
    const auto given_up = std::chrono::steady_clock::now() + 60s;
    for (int64_t rank = 1; rank < others; ++rank) {
      const std::filesystem::path sign = sign_of(rank, number);
      while (!std::filesystem::exists(sign) && std::chrono::steady_clock::now() < given_up) {
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_TRUE(std::filesystem::remove(sign)) << "rank " << rank << " waits for rank 0, which computes";
    }
    work.wait();
    if (world->rank() > 0) std::ofstream(sign_of(world->rank(), number));
    EXPECT_EQ(data.back(), static_cast<float>(world->size()));
  }
}

TEST(MpiCalls, ProgressWhenTheyArePolled) {
  const auto world = make_mpi_world(library, {.rank_order = true});
  const auto comm = world->connect(everyone(*world));
  std::vector<float> data(1 << 18, 1.0F);
  Work work = comm->all_reduce(data.data(), 1 << 18, Type::fp32, {});
  while (!work.done()) std::this_thread::yield();
  EXPECT_EQ(data.front() + data.back(), static_cast<float>(2 * world->size()));
}

TEST(MpiWorld, KnowsItsRanksAndTheirMachine) {
  EXPECT_EQ(started_by_mpi(), launched_processes() > 1);
  const auto world = make_mpi_world(library, {});
  EXPECT_EQ(world->size(), launched_processes());
  EXPECT_LT(world->rank(), world->size());
  EXPECT_LE(world->ranks_per_node(), world->size());
}

}  // namespace
}  // namespace terrace::comm

int main(int argc, char** argv) {
  // Ranks other than the first print only failures.
  const char* const rank = std::getenv("PMIX_RANK");
  if (rank != nullptr && std::string(rank) != "0") GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  try {
    terrace::comm::library = terrace::comm::start_mpi();
  } catch (const terrace::UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code);
  }
  const int result = RUN_ALL_TESTS();
  terrace::comm::library.reset();
  return result;
}
