// Measures what the executor itself takes for an instruction, in a pipeline of eight thread ranks and up to 32
// micro-batches of a tiny model. The processor time of all threads, waiting included, is compared with the same model's
// on one stage; what a step costs whatever its micro-batches are falls out of the difference between many of them and
// few. Usage: bench_layouts_executor_cost [ROUNDS [STEPS]]
#include <spdlog/spdlog.h>

#include <ctime>

#include "bench_run.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;

constexpr int64_t long_stages = 8, many = 32, few = 8, vocabulary = 64;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The processor time of a step, all threads of the process together.
double step_seconds(const config::Config& config, int64_t stages, int64_t steps) {
  double seconds = 0;
  comm::run_threads(stages, train::world_options(config), [&](comm::World& world) {
    train::Trainer trainer(config, train::Peak{}, {}, &world);
    comm::Comm& all = trainer.saving_group();
    trainer.step();
    all.barrier({.what = "begin"}).wait();
    const double began = processor_seconds();
    for (int64_t i = 0; i < steps; ++i) trainer.step();
    all.barrier({.what = "end"}).wait();
    if (world.rank() == 0) seconds = (processor_seconds() - began) / static_cast<double>(steps);
  });
  return seconds;
}

struct Cost {
  double seconds;
  int64_t instructions;
};

// The processor time and the instructions that a step of `many` micro-batches has more than one of `few`.
Cost added_cost(const bench::Folder& folder, int64_t stages, int64_t steps) {
  const auto of = [&](int64_t micro_batches) -> Cost {
    const config::Config config = bench::config_of(
        folder, vocabulary,
        {"model.layers=8", "model.width=16", "model.heads=2", "model.sequence=8", "train.micro_batch=1",
         fmt::format("layout.pipeline={}", stages), fmt::format("train.global_batch={}", micro_batches)});
    int64_t instructions = 0;
    for (const auto& list : schedule::instructions(schedule::pipeline_of(config.layout, micro_batches))) {
      instructions += std::ssize(list);
    }
    return {step_seconds(config, stages, steps), instructions};
  };
  const Cost long_step = of(many), short_step = of(few);
  return {long_step.seconds - short_step.seconds, long_step.instructions - short_step.instructions};
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t rounds = count > 1 ? std::stoll(arguments[1]) : 9;
  const int64_t steps = count > 2 ? std::stoll(arguments[2]) : 20;
  spdlog::set_level(spdlog::level::warn);
  train::prepare_machine(1);
  const bench::Folder folder;
  std::vector<double> microseconds;
  for (int64_t round = 0; round < rounds; ++round) {
    const Cost cut = added_cost(folder, long_stages, steps), whole = added_cost(folder, 1, steps);
    microseconds.push_back(1e6 * (cut.seconds - whole.seconds) /
                           static_cast<double>(cut.instructions - whole.instructions));
    fmt::print(stderr, "{} micro-batches more: {:.2f} ms on {} stages ({} instructions more), {:.2f} ms on one ({})\n",
               many - few, 1e3 * cut.seconds, long_stages, cut.instructions, 1e3 * whole.seconds, whole.instructions);
  }
  const bench::Quartiles q = bench::quartiles(microseconds);
  fmt::print("{:.1f} us an instruction ({:.1f} to {:.1f})\n", q.middle, q.low, q.high);
  return 0;
}
