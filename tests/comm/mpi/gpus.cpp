// Ranks under mpirun that use the NCCL backend over a stand-in for GPUs: every operation against its definition, sums
// in rank order bit for bit, and the failure where a rank never takes part.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "terrace/comm/mpi/mpi.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<MpiLibrary> library;

mesh::Group everyone(const World& world) { return mesh::all_ranks("data", world.size()); }

std::unique_ptr<World> world_of_gpus(const WorldOptions& options) {
  auto world = make_mpi_world(library, options);
  world->use_gpu(0);
  return world;
}

TEST(Gpus, EveryOperationOfEveryType) {
  for (const bool rank_order : {false, true}) {
    const auto world = world_of_gpus({.rank_order = rank_order, .check_calls = rank_order});
    mesh::Group reversed = everyone(*world);
    std::reverse(reversed.ranks.begin(), reversed.ranks.end());
    for (const mesh::Group& group : {everyone(*world), reversed, mesh::Group{"own", {world->rank()}}}) {
      const auto comm = world->connect(group);
      for (const Type type : {Type::fp64, Type::fp32, Type::bf16, Type::fp16, Type::int64, Type::int32, Type::uint8}) {
        for (const int64_t count : {0, 5, 1000}) {
          for (const std::string& wrong : OperationCheck(*comm, type, count).run()) ADD_FAILURE() << wrong;
        }
      }
    }
  }
}

// Adding 1 to 1e8 in fp32 loses the 1, so that different orders of four terms have different sums.
TEST(Gpus, SumInRankOrderWhateverTheOrderOfTheMembers) {
  const auto world = world_of_gpus({.rank_order = true});
  mesh::Group group = everyone(*world);
  std::reverse(group.ranks.begin(), group.ranks.end());
  const auto comm = world->connect(group);
  const std::vector<float> terms = {1e8F, 1.0F, -1e8F, 3.0F};
  float expected = terms[0];
  for (int64_t rank = 1; rank < world->size(); ++rank) expected += terms[static_cast<size_t>(rank)];
  // More than the memory for terms holds at once.
  std::vector<float> data(3'000'001, terms[static_cast<size_t>(world->rank())]);
  comm->all_reduce(data.data(), std::ssize(data), Type::fp32, {"add up"}).wait();
  EXPECT_EQ(std::ranges::count(data, expected), std::ssize(data));
}

// Ends the process: MPI cannot be finalized any more.
[[noreturn]] void wait_for_a_rank_that_never_comes() {
  const auto world = world_of_gpus({.timeout_seconds = 1.0});
  const auto comm = world->connect(everyone(*world));
  std::vector<float> data(100);
  comm->all_reduce(data.data(), 100, Type::fp32, {"first"}).wait();
  if (world->rank() == 1) std::this_thread::sleep_for(5s);
  try {
    comm->all_reduce(data.data(), 100, Type::fp32, {"reduce gradients", 7, "backward"}).wait();
    comm->all_reduce(data.data(), 100, Type::fp32, {"after"}).wait();
    std::fprintf(stderr, "no error\n");
  } catch (const CommError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  std::_Exit(5);
}

}  // namespace
}  // namespace terrace::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  terrace::comm::library = terrace::comm::start_mpi();
  if (argc > 1 && std::string(argv[1]) == "late") terrace::comm::wait_for_a_rank_that_never_comes();
  const int failed = RUN_ALL_TESTS();
  terrace::comm::library.reset();
  return failed;
}
