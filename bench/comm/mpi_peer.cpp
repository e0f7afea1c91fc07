// Times MPI's own collectives as bench_comm_threads times ours. Usage: mpirun -n RANKS bench_comm_mpi_peer.
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "batches.h"

namespace {

using namespace terrace;

int rank = 0, ranks = 0;

struct Operation {
  const char* name;
  std::function<void(float* a, float* b, int count)> call;
};

void send_back_and_forth(float* data, int count) {
  if (rank > 1) return;
  if (rank == 0) MPI_Send(data, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
  MPI_Recv(data, count, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(data, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
}

const Operation operations[] = {
    {"all_reduce",
     [](float* a, float*, int count) { MPI_Allreduce(MPI_IN_PLACE, a, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }},
    {"reduce_scatter",
     [](float* a, float* b, int count) {
       MPI_Reduce_scatter_block(a, b, count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"all_gather",
     [](float* a, float* b, int count) {
       MPI_Allgather(b, count / ranks, MPI_FLOAT, a, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"send", [](float* a, float*, int count) { send_back_and_forth(a, count); }},
};

bench::Times time_operation(const Operation& operation, int64_t bytes) {
  const auto count = static_cast<int>(bytes / 4);
  std::vector<float> a(static_cast<size_t>(count)), b(static_cast<size_t>(count));
  return bench::time_batches(
      [&] { operation.call(a.data(), b.data(), count); }, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [](bench::BatchPlan& plan) { MPI_Bcast(&plan, sizeof plan, MPI_BYTE, 0, MPI_COMM_WORLD); });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Operation& operation : operations) {
    for (const int64_t bytes : bench::message_bytes) {
      const bench::Times times = time_operation(operation, bytes);
      const double trips = operation.name == std::string("send") ? 2 : 1;
      if (rank > 0) continue;
      std::printf("%s %ld %.4f %.4f\n", operation.name, static_cast<long>(bytes), times.median / trips,
                  times.least / trips);
    }
  }
  MPI_Finalize();
}
