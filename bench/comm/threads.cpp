// Times the collectives among ranks that are threads, one pinned to each core. Usage: bench_comm_threads RANKS.
// bench/comm/compare.py runs it beside its peers.
#include "terrace/comm/threads/threads.h"

#include <fmt/core.h>
#include <sched.h>

#include <string>

#include "operations.h"

namespace {

using namespace terrace;

void pin_to_core(int64_t rank) {
  cpu_set_t usable, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) <= rank) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && rank-- == 0) CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_comm_threads RANKS\n");
    return 2;
  }
  const int64_t ranks = std::stoll(argv[1]);
  comm::run_threads(ranks, {}, [&](comm::World& world) {
    pin_to_core(world.rank());
    bench::time_operations(world);
  });
}
