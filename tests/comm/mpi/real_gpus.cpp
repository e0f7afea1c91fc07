// Ranks under mpirun that use the NCCL backend on real GPUs: every operation against its definition, sums in rank order
// bit for bit, messages of different directions, a rank that never takes part, and the time that starting a call takes.
// The ranks may share a GPU: each then tells NCCL that it is on a host of its own, and data go through NCCL's network
// transport (on a machine without a network NCCL_SOCKET_IFNAME=lo).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "gpu_runtime.h"
#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/comm/nccl/nccl.h"
#include "tests/comm/operations.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::shared_ptr<MpiLibrary> library;
int own_gpu = 0;

void check(cudaError_t result) {
  if (result != cudaSuccess) throw CommError(cudaGetErrorString(result));
}

// A buffer in the memory of the GPU.
class GpuBuffer {
 public:
  explicit GpuBuffer(const std::vector<char>& bytes) : size_(bytes.size()) {
    check(cudaSetDevice(own_gpu));
    check(cudaMalloc(&data_, size_ + 1));
    copy_and_wait(own_gpu, data_, bytes.data(), size_);
  }
  GpuBuffer(GpuBuffer&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  GpuBuffer& operator=(GpuBuffer&&) = delete;
  ~GpuBuffer() { static_cast<void>(cudaFree(data_)); }
  char* data() { return static_cast<char*>(data_); }
  std::vector<char> bytes() const {
    std::vector<char> found(size_);
    copy_and_wait(own_gpu, found.data(), data_, size_);
    return found;
  }

 private:
  size_t size_;
  void* data_ = nullptr;
};

mesh::Group everyone(const World& world) { return mesh::all_ranks("data", world.size()); }

std::unique_ptr<World> world_of_gpus(WorldOptions options) {
  options.share_gpus = true;
  auto world = make_mpi_world(library, options);
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus));
  own_gpu = static_cast<int>(world->rank() % world->ranks_per_node()) % gpus;
  check(cudaSetDevice(own_gpu));
  if (gpus < world->ranks_per_node()) setenv("NCCL_HOSTID", fmt::format("rank {}", world->rank()).c_str(), 1);
  world->use_gpu(own_gpu);
  return world;
}

TEST(RealGpus, EveryOperationOfEveryType) {
  for (const bool rank_order : {false, true}) {
    const auto world = world_of_gpus({.timeout_seconds = 60, .rank_order = rank_order, .check_calls = rank_order});
    const mesh::Group reversed = mesh::spaced_ranks("data", world->size() - 1, world->size(), -1);
    const auto comm = world->connect(rank_order ? reversed : everyone(*world), all_directions(world->size()));
    for (const Type type : all_types) {
      for (const int64_t count : {0, 5, 100'000}) {
        for (const std::string& wrong : OperationCheckOn<GpuBuffer>(*comm, type, count).run()) ADD_FAILURE() << wrong;
      }
    }
  }
}

// Adding 1 to 1e8 in fp32 loses the 1, so that different orders of terms have different sums.
TEST(RealGpus, SumInRankOrderWhateverTheOrderOfTheMembers) {
  const auto world = world_of_gpus({.timeout_seconds = 60, .rank_order = true});
  const mesh::Group group = mesh::spaced_ranks("data", world->size() - 1, world->size(), -1);
  const auto comm = world->connect(group);
  const std::vector<float> terms = {1e8F, 1.0F, -1e8F, 3.0F};
  const auto term = [&](int64_t rank) { return terms[static_cast<size_t>(rank) % terms.size()]; };
  float expected = term(0);
  for (int64_t rank = 1; rank < world->size(); ++rank) expected += term(rank);
  // More than the memory for terms holds at once.
  GpuBuffer data = buffer_of<GpuBuffer>(std::vector<float>(9'000'001, term(world->rank())));
  comm->all_reduce(data.data(), 9'000'001, Type::fp32, {"add up"}).wait();
  EXPECT_EQ(std::ranges::count(values_of<float>(data), expected), 9'000'001);
}

TEST(RealGpus, MessagesOfDifferentDirectionsDoNotWaitForEachOther) {
  const auto world = world_of_gpus({.timeout_seconds = 60});
  EXPECT_EQ(wrong_messages_of_all_directions<GpuBuffer>(*world, 500'000), std::vector<int64_t>());
}

// This is not judged: it says how long the rank itself is busy with a call.
TEST(RealGpus, SecondsOfStartingACall) {
  const auto world = world_of_gpus({.timeout_seconds = 60});
  const auto comm = world->connect(everyone(*world));
  GpuBuffer data = buffer_of<GpuBuffer>(std::vector<float>(1000, 1.0F));
  constexpr int calls = 100;
  for (int round = 0; round < 3; ++round) {
    std::vector<Work> works;
    const auto began = Clock::now();
    for (int i = 0; i < calls; ++i) works.push_back(comm->all_reduce(data.data(), 1000, Type::fp32, {"sum"}));
    const std::chrono::duration<double, std::micro> started = Clock::now() - began;
    for (Work& work : works) work.wait();
    static_cast<void>(data.bytes());
    const std::chrono::duration<double, std::micro> done = Clock::now() - began;
    if (world->rank() > 0) continue;
    fmt::print("a call: {:.1f} us to start, {:.1f} us until it is done\n", started.count() / calls,
               done.count() / calls);
  }
}

// Ends the process: MPI cannot be finalized any more. With a full queue the rank waits for the GPU in the start of a
// call, perhaps within NCCL. While all wait, a message may be expected too.
[[noreturn]] void wait_for_a_rank_that_never_comes(const std::string& mode) {
  const auto world = world_of_gpus({.timeout_seconds = 3.0});
  CallsBesideLateMember<GpuBuffer> calls(world->size());
  const auto comm = world->connect(everyone(*world), all_directions(world->size()));
  const auto began = Clock::now();
  try {
    calls.make(*comm, mode, 10s, 5000);
    fmt::print(stderr, "rank {}: no error\n", world->rank());
  } catch (const CommError& error) {
    const std::chrono::duration<double> waited = Clock::now() - began;
    fmt::print(stderr, "rank {}: error after {:.0f} s: {}\n", world->rank(), waited.count(), error.what());
  }
  std::_Exit(5);
}

}  // namespace
}  // namespace terrace::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  terrace::comm::prepare_for_ranks();
  terrace::comm::library = terrace::comm::start_mpi();
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode.starts_with("late")) terrace::comm::wait_for_a_rank_that_never_comes(mode);
  const int failed = RUN_ALL_TESTS();
  terrace::comm::library.reset();
  return failed;
}
