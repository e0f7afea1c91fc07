// Trains on processes of which one becomes slow, or of whose links one does, see watch_test.py.
#include <fmt/format.h>

#include <cstdio>

#include "terrace/comm/mpi/mpi.h"
#include "tests/run/watched_run.h"

namespace {

class Run : public terrace::run::WatchedRun {
 public:
  void prepare() { SetUp(); }

 private:
  void TestBody() override {}
};

}  // namespace

// Prints what was named, a line for each: "rank 1 29" with the step, or "link 0 2 30".
int main(int, char** argv) {
  const bool link = std::string(argv[1]) == "link";
  Run run;
  run.prepare();
  run.write_corpus(400);
  const auto world = terrace::comm::make_mpi_world(terrace::comm::start_mpi(), {.timeout_seconds = 60});
  run.train_watched(
      *world, {"layout.sharding=zero2"},
      link ? terrace::comm::slow_link(0, 2, 2e-7, run.active()) : terrace::comm::slow_rank(1, 0.3, run.active()));
  for (const terrace::observe::Slowness& one : run.named()) {
    if (world->rank() != 0 || one.ended) continue;
    fmt::print("{} {} {}\n", one.what,
               one.to < 0 ? fmt::format("{}", one.rank)
                          : fmt::format("{} {}", std::min(one.rank, one.to), std::max(one.rank, one.to)),
               one.step);
  }
  return 0;
}
