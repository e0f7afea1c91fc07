// One of two processes that train data parallel: seconds of a step without the other and with it, and for each group
// what its calls take by themselves, one after another, and how long the step waited for them.
// Usage: mpirun -n 2 bench_layouts_overlap SHARDING STEPS [section.key=value...]
#include <spdlog/spdlog.h>

#include <chrono>

#include "bench_run.h"
#include "recorded_calls.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

constexpr int64_t vocabulary = 2048;

double seconds_since(Clock::time_point when) { return std::chrono::duration<double>(Clock::now() - when).count(); }

double steps_seconds(train::Trainer& trainer, int64_t steps) {
  const auto began = Clock::now();
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  return seconds_since(began) / static_cast<double>(steps);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: mpirun -n 2 {} SHARDING STEPS [section.key=value...]\n", arguments[0]);
    return 2;
  }
  spdlog::set_level(spdlog::level::warn);
  train::prepare_machine(1);
  const bench::Folder folder;
  const int64_t steps = std::stoll(arguments[2]);
  std::vector<std::string> overrides = {"model.layers=8",      "model.width=512",
                                        "model.heads=8",       "model.sequence=256",
                                        "train.micro_batch=4", std::string("layout.sharding=") + arguments[1]};
  overrides.insert(overrides.end(), arguments + 3, arguments + count);
  const auto config_of = [&](int64_t sequences) {
    overrides.push_back(fmt::format("train.global_batch={}", sequences));
    return bench::config_of(folder, vocabulary, overrides);
  };
  const auto world = comm::make_mpi_world(train::world_options(config_of(8)));
  const auto all = world->connect({.name = "all", .ranks = {0, 1}});
  const bool is_reporting_rank = world->rank() == 0;
  {
    train::Trainer trainer(config_of(4), train::Peak{});
    trainer.step();
    all->barrier({.what = "begin"}).wait();  // both compute at the same time, as in the step with communication
    const double seconds = steps_seconds(trainer, steps);
    if (is_reporting_rank) fmt::print("@ without {:.6f}\n", seconds);
  }
  bench::RecordingWorld recording(*world);
  train::Trainer trainer(config_of(8), train::Peak{}, {}, &recording);
  trainer.step();
  all->barrier({.what = "begin"}).wait();
  recording.forget_calls();
  const double seconds = steps_seconds(trainer, steps);
  if (is_reporting_rank) fmt::print("@ with {:.6f}\n", seconds);
  for (const auto& group : recording.groups()) {
    int64_t bytes = 0;
    double exposed = 0;
    for (int kind = 0; kind < comm::num_kinds; ++kind) {
      const comm::Traffic& traffic = group->outer->traffic(static_cast<comm::Kind>(kind));
      bytes += traffic.bytes / steps;
      exposed += traffic.exposed_seconds / static_cast<double>(steps);
    }
    if (group->calls.empty()) continue;
    const double alone = bench::alone_seconds(*group, steps);
    if (is_reporting_rank) fmt::print("@ group {} {} {:.6f} {:.6f}\n", group->name, bytes, alone, exposed);
  }
  return 0;
}
