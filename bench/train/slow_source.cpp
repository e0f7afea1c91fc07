// Length of a step whose data take most of the step's time to make, beside one whose data take none: batches are made
// ahead on a thread of their own, so both should be equal while a core is free for it. The data of the slow run are
// those of the other, made with so much processor time more. Usage: bench_train_slow_source [SHARE [ROUNDS]], where
// SHARE is that of a step's time, 0.8 if it is not given. Training computes on one thread.
#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <ctime>

#include "bench/layouts/bench_run.h"
#include "bench/train/changed_source.h"
#include "terrace/train/prepare_machine.h"

namespace {

using namespace terrace;

double burnt_seconds = 0;  // by each step's data of the slow run

void burn(double seconds) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  for (const double end = now() + seconds; now() < end;) {
  }
}

constexpr int steps = 8;

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const double share = argc > 1 ? std::atof(argv[1]) : 0.8;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  train::prepare_machine(1);
  const bench::Folder folder;
  const config::Config config =
      bench::config_of(folder, 4096,
                       {"model.layers=4", "model.width=256", "model.heads=4", "model.sequence=128",
                        "train.micro_batch=4", "train.global_batch=4", "train.threads=1"});
  config::Family family = *config.family;
  const bench::ChangedData slow_data(
      *family.data, [](const data::Source& source, const data::StepShare& share, const data::TensorNames& names) {
        burn(burnt_seconds);
        return source.micro_batches(share, names);
      });
  family.data = &slow_data;
  config::Config slow_config = config;
  slow_config.family = &family;
  train::Trainer fast(config, {});
  train::Trainer slow(slow_config, {});
  bench::step_seconds(fast, steps);
  burnt_seconds = share * bench::step_seconds(fast, steps);
  bench::step_seconds(slow, steps);
  std::vector<double> ratios, seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(bench::step_seconds(fast, steps));
    ratios.push_back(bench::step_seconds(slow, steps) / seconds.back());
  }
  const bench::Quartiles ratio = bench::quartiles(ratios), step = bench::quartiles(seconds);
  fmt::print(
      "a step takes {:.1f} ms; with data that take {:.1f} ms a step it takes {:.3f} as long (quartiles {:.3f} to "
      "{:.3f} of {} rounds)\n",
      1e3 * step.middle, 1e3 * burnt_seconds, ratio.middle, ratio.low, ratio.high, rounds);
}
