// Ranks under mpirun that use the NCCL backend over a stand-in for GPUs: every operation against its definition, sums
// in rank order bit for bit, and the failure where a rank never takes part.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"
#include "tests/comm/mpi/gpu_stand_in.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

std::shared_ptr<MpiLibrary> library;

mesh::Group everyone(const World& world) { return mesh::all_ranks("data", world.size()); }

std::unique_ptr<World> world_of_gpus(const WorldOptions& options) {
  auto world = make_mpi_world(library, options);
  world->use_gpu(static_cast<int>(world->rank()));
  return world;
}

// Makes this process see only its own GPU, under number 0, or all of them, as launchers do.
void show_only_gpu_of(int64_t rank) { setenv("STAND_IN_FIRST_GPU", std::to_string(rank).c_str(), 1); }
void show_all_gpus() { unsetenv("STAND_IN_FIRST_GPU"); }

TEST(Gpus, EveryOperationOfEveryType) {
  for (const bool rank_order : {false, true}) {
    const auto world = world_of_gpus({.rank_order = rank_order, .check_calls = rank_order});
    const mesh::Group reversed = mesh::spaced_ranks("data", world->size() - 1, world->size(), -1);
    for (const mesh::Group& group : {everyone(*world), reversed, mesh::Group{"own", {world->rank()}}}) {
      const auto comm = world->connect(group, all_directions(std::ssize(group.ranks)));
      for (const Type type : {Type::fp64, Type::fp32, Type::bf16, Type::fp16, Type::int64, Type::int32, Type::uint8}) {
        for (const int64_t count : {0, 5, 1000}) {
          for (const std::string& wrong : OperationCheck(*comm, type, count).run()) ADD_FAILURE() << wrong;
        }
      }
    }
  }
}

TEST(Gpus, EveryRankMayUseNumber0) {
  const auto world = make_mpi_world(library, {.timeout_seconds = 20});
  show_only_gpu_of(world->rank());
  world->use_gpu(0);
  int64_t sum = world->rank();
  world->connect(everyone(*world))->all_reduce(&sum, 1, Type::int64, {"add up"}).wait();
  EXPECT_EQ(sum, world->size() * (world->size() - 1) / 2);
  show_all_gpus();
}

TEST(Gpus, RefusesOneGpuForTwoRanks) {
  const auto world = make_mpi_world(library, {.timeout_seconds = 20});
  try {
    world->use_gpu(0);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("ranks 0 and 1 use the same GPU (0000:00:00.0): start one rank for each"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("layout.share_gpus = true"), std::string::npos) << error.what();
  }
}

// Every rank takes part in calls on memory of the one GPU, by way of host memory; the stand-in's NCCL refuses them.
TEST(Gpus, SharedGpuIsReachedThroughHostMemory) {
  for (const bool check_calls : {false, true}) {
    const auto world = make_mpi_world(library, {.check_calls = check_calls, .share_gpus = true});
    world->use_gpu(0);
    const auto comm = world->connect(everyone(*world), all_directions(world->size()));
    for (const Type type : {Type::fp32, Type::bf16, Type::int64}) {
      for (const int64_t count : {0, 5, 1000}) {
        for (const std::string& wrong : OperationCheck(*comm, type, count).run()) ADD_FAILURE() << wrong;
      }
    }
  }
}

// As NCCL does, the stand-in connects two ranks on one GPU if it takes them to be on different hosts.
TEST(Gpus, RanksThatNcclTakesForDifferentHostsShareAGpuThroughIt) {
  const int before = communicators_of_process();
  {
    const auto world = make_mpi_world(library, {.rank_order = true, .share_gpus = true});
    setenv("NCCL_HOSTID", std::to_string(world->rank()).c_str(), 1);
    world->use_gpu(0);
    const auto comm = world->connect(everyone(*world), all_directions(world->size()));
    EXPECT_EQ(communicators_of_process() - before, 1 + 2 * (world->size() - 1));
    for (const std::string& wrong : OperationCheck(*comm, Type::bf16, 1000).run()) ADD_FAILURE() << wrong;
  }
  unsetenv("NCCL_HOSTID");
}

// Adding 1 to 1e8 in fp32 loses the 1, so that different orders of four terms have different sums.
TEST(Gpus, SumInRankOrderWhateverTheOrderOfTheMembers) {
  const auto world = world_of_gpus({.rank_order = true});
  const mesh::Group group = mesh::spaced_ranks("data", world->size() - 1, world->size(), -1);
  const auto comm = world->connect(group);
  const std::vector<float> terms = {1e8F, 1.0F, -1e8F, 3.0F};
  float expected = terms[0];
  for (int64_t rank = 1; rank < world->size(); ++rank) expected += terms[static_cast<size_t>(rank)];
  // More than the memory for terms holds at once.
  std::vector<float> data(3'000'001, terms[static_cast<size_t>(world->rank())]);
  comm->all_reduce(data.data(), std::ssize(data), Type::fp32, {"add up"}).wait();
  EXPECT_EQ(std::ranges::count(data, expected), std::ssize(data));
}

TEST(Gpus, MessagesOfDifferentDirectionsDoNotWaitForEachOther) {
  const auto world = world_of_gpus({.timeout_seconds = 20});
  EXPECT_EQ(wrong_messages_of_all_directions<HostBuffer>(*world, 50'000), std::vector<int64_t>());
}

// NCCL makes a thread for each call of a nonblocking communicator.
TEST(Gpus, NoCallIsEnqueuedByAThreadOfItsOwn) {
  const int before = threads_that_enqueued_calls();
  for (const bool rank_order : {false, true}) {
    const auto world = world_of_gpus({.rank_order = rank_order});
    const auto comm = world->connect(everyone(*world), all_directions(world->size()));
    for (const std::string& wrong : OperationCheck(*comm, Type::fp32, 1000).run()) ADD_FAILURE() << wrong;
  }
  EXPECT_EQ(threads_that_enqueued_calls(), before);
}

TEST(Gpus, AMessageDoesNotWaitForACollectiveOfAnotherGroup) {
  const auto world = world_of_gpus({.timeout_seconds = 20});
  EXPECT_TRUE(passes_message_beside_collective(*world, 100'000));
}

// The stream gets four tasks of each call, of which NCCL's is the second. This many are in the queue behind the call
// that waits when one of NCCL's is the first that has no place.
constexpr int queue_before_call_of_nccl = 2 + 4 * 4 + 1;

// Ends the process: MPI cannot be finalized any more. In its first all_to_all a member also waits for the others'
// connections, and with a full queue in the start of a later call. While all wait, a message may be expected too.
[[noreturn]] void wait_for_a_rank_that_never_comes(const std::string& mode) {
  if (mode == "late_with_full_queue") setenv("STAND_IN_QUEUE", std::to_string(queue_before_call_of_nccl).c_str(), 1);
  const auto world = world_of_gpus({.timeout_seconds = 1.0});
  CallsBesideLateMember<HostBuffer> calls(world->size());
  if (world->rank() == 1 && mode == "late_in_split") setenv("STAND_IN_LATE", "split", 1);
  if (world->rank() == 1 && mode == "late_in_first_message") setenv("STAND_IN_LATE", "first message", 1);
  try {
    const auto comm = world->connect(everyone(*world), all_directions(world->size()));
    calls.make(*comm, mode, late, 100);
    std::fprintf(stderr, "rank %d: no error\n", static_cast<int>(world->rank()));
  } catch (const CommError& error) {
    std::fprintf(stderr, "rank %d: error: %s\n", static_cast<int>(world->rank()), error.what());
  }
  std::_Exit(5);
}

}  // namespace
}  // namespace terrace::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  terrace::comm::library = terrace::comm::start_mpi();
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode.starts_with("late")) {
    terrace::comm::wait_for_a_rank_that_never_comes(mode);
  }
  const int failed = RUN_ALL_TESTS();
  terrace::comm::library.reset();
  return failed;
}
