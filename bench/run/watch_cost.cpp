// The cost of watching a run: processor time of the watch's hook and of the executor's marks, beside that of the
// whole step, in one run. Usage: bench_run_watch_cost FOLDER [RANKS [WIDTH]]; ranks are threads.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "bench/random_corpus.h"
#include "terrace/base/random.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/models/families.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/train/step_times.h"

namespace {

using namespace terrace;

constexpr int64_t vocabulary = 8192, steps = 40;

double thread_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Counts the processor time of another hook.
class Counted : public train::Hook {
 public:
  Counted(std::unique_ptr<train::Hook> inner, double& seconds) : inner_(std::move(inner)), seconds_(seconds) {}
  void at_start(train::Trainer& trainer) override { inner_->at_start(trainer); }
  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    const double began = thread_seconds();
    inner_->after_step(trainer, report);
    // The first windows measure the links once.
    if (report.metrics.step > steps / 2) seconds_ += thread_seconds() - began;
  }
  void at_end(train::Trainer& trainer) override { inner_->at_end(trainer); }

 private:
  std::unique_ptr<train::Hook> inner_;
  double& seconds_;
};

class WholeSteps : public train::Hook {
 public:
  explicit WholeSteps(double& seconds) : seconds_(seconds) {}
  void after_step(train::Trainer&, const train::StepReport& report) override {
    if (report.metrics.step == steps / 2) began_ = thread_seconds();
    if (report.metrics.step == steps) seconds_ = thread_seconds() - began_;
  }

 private:
  double& seconds_;
  double began_ = 0;
};

double seconds_of_mark(bool shares_cores) {
  constexpr int64_t marks = 20'000;
  train::StepTimes times(at::Device(at::kCPU), {}, shares_cores);
  times.begin_step();
  const double began = thread_seconds();
  for (int64_t i = 0; i < marks; ++i)
    times.mark(schedule::StepInstruction{.kind = schedule::StepInstruction::Kind::forward});
  return (thread_seconds() - began) / marks;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const int64_t ranks = argc > 2 ? std::stoll(argv[2]) : 2, width = argc > 3 ? std::stoll(argv[3]) : 256;
  at::set_num_threads(1);
  spdlog::set_level(spdlog::level::warn);
  std::filesystem::create_directories(folder);
  bench::write_corpus(folder + "/corpus", vocabulary);
  const config::Config config = config::parse(
      "", "bench", models::families(),
      {"model.layers=4", fmt::format("model.width={}", width), "model.heads=4", "model.sequence=128",
       fmt::format("model.vocabulary={}", vocabulary), "data.train=[\"" + folder + "/corpus\"]",
       fmt::format("train.global_batch={}", 2 * ranks), "train.micro_batch=1", fmt::format("train.steps={}", steps),
       "train.device=cpu", "train.evaluate_every=0", "optimizer.learning_rate=1e-4", "optimizer.warmup_steps=1",
       "layout.sharding=zero2", "train.threads=1", "checkpoint.folder=" + folder + "/run"});
  std::mutex mutex;
  double hook_seconds = 0, step_seconds = 0;
  size_t instructions = 0;
  comm::run_threads(ranks, {}, [&](comm::World& world) {
    double own_hook = 0, own_steps = 0;
    train::Trainer trainer(config, {}, {}, &world);
    trainer.add_hook(std::make_unique<Counted>(run::make_watch_hook(), own_hook));
    trainer.add_hook(std::make_unique<WholeSteps>(own_steps));
    trainer.run();
    const std::lock_guard lock(mutex);
    hook_seconds += own_hook;
    step_seconds += own_steps;
    instructions = trainer.cut().training_step(2).size();
  });
  const double counted = static_cast<double>(ranks * (steps - steps / 2));
  const double step = step_seconds / counted, hook = hook_seconds / counted;
  for (const bool shares_cores : {false, true}) {
    const double marks = seconds_of_mark(shares_cores) * static_cast<double>(instructions);
    fmt::print(
        "{} ranks, width {}: a step takes {:.2f} ms of a rank's processor, the watch {:.1f} us (hook {:.1f}, {} marks "
        "{:.1f}{}): {:.3f}%\n",
        ranks, width, 1e3 * step, 1e6 * (hook + marks), 1e6 * hook, instructions, 1e6 * marks,
        shares_cores ? ", cores shared" : "", 100 * (hook + marks) / step);
  }
  return 0;
}
