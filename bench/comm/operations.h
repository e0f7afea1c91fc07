// The operations that our backends are timed by, and their lines "OPERATION BYTES MEDIAN LEAST": bytes of the whole
// buffer, microseconds of one call (half a round trip of a send and its answer) over batches.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "batches.h"
#include "terrace/comm/comm.h"

namespace terrace::bench {

using comm::Comm;
using comm::Type;

struct Operation {
  const char* name;
  std::function<void(Comm& comm, float* a, float* b, int64_t count)> call;
};

inline void send_back_and_forth(Comm& comm, float* data, int64_t count) {
  if (comm.member() > 1) return;
  const int64_t peer = 1 - comm.member();
  if (comm.member() == 0) comm.send(data, count, Type::fp32, peer, {}).wait();
  comm.receive(data, count, Type::fp32, peer, {}).wait();
  if (comm.member() == 1) comm.send(data, count, Type::fp32, peer, {}).wait();
}

inline const Operation operations[] = {
    {"all_reduce",
     [](Comm& comm, float* a, float*, int64_t count) { comm.all_reduce(a, count, Type::fp32, {}).wait(); }},
    {"reduce_scatter", [](Comm& comm, float* a, float* b,
                          int64_t count) { comm.reduce_scatter(a, b, count / comm.size(), Type::fp32, {}).wait(); }},
    {"all_gather", [](Comm& comm, float* a, float* b,
                      int64_t count) { comm.all_gather(b, a, count / comm.size(), Type::fp32, {}).wait(); }},
    {"send", [](Comm& comm, float* a, float*, int64_t count) { send_back_and_forth(comm, a, count); }},
};

inline Times time_operation(Comm& comm, const Operation& operation, int64_t bytes) {
  const int64_t count = bytes / 4;
  std::vector<float> a(static_cast<size_t>(count)), b(static_cast<size_t>(count));
  return time_batches([&] { operation.call(comm, a.data(), b.data(), count); }, [&] { comm.barrier({}).wait(); },
                      [&](BatchPlan& plan) { comm.broadcast(&plan, sizeof plan, Type::uint8, 0, {}).wait(); });
}

// Times all operations in one group of all ranks; the first rank prints them.
inline void time_operations(comm::World& world) {
  const auto comm = world.connect(mesh::all_ranks("bench", world.size()));
  for (const Operation& operation : operations) {
    for (const int64_t bytes : message_bytes) {
      const Times times = time_operation(*comm, operation, bytes);
      const double trips = operation.name == std::string("send") ? 2 : 1;
      if (world.rank() > 0) continue;
      fmt::print("{} {} {:.4f} {:.4f}\n", operation.name, bytes, times.median / trips, times.least / trips);
      std::fflush(stdout);
    }
  }
}

}  // namespace terrace::bench
