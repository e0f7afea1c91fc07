// Trains a tiny model on ranks of which one, or a link of which, becomes slow after some steps.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/comm/fault.h"
#include "terrace/observe/slowness_file.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/train/trainer.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {

class WatchedRun : public train::TinyRun {
 public:
  using TinyRun::write_corpus;

  static constexpr int64_t slow_from = 24;  // the first step with the fault

  // One rank of a run in whose steps the fault is active from slow_from on; to be called by all ranks.
  void train_watched(comm::World& inner, const std::vector<std::string>& keys, comm::Fault fault) {
    const auto world = comm::make_faulty_world(inner, {std::move(fault)});
    train::Trainer trainer(watched_config(keys), {}, {}, world.get());
    trainer.add_hook(make_watch_hook());
    if (world->rank() == 0) {
      const observe::MetricsFormats formats{.names = trainer.metric_names()};
      trainer.add_hook(make_metrics_hook(std::make_shared<observe::MetricsWriter>(run_folder(), 0, formats)));
    }
    trainer.add_hook(std::make_unique<Activation>(active_));
    trainer.run();
  }

  // Returns what was named, on the first rank. Steps that were longer for no known reason, all ranks of a stage, and
  // differences below 15% are left out, since other work on the machine makes some.
  std::vector<observe::Slowness> named() const {
    constexpr double least_told = 0.15;
    std::vector<observe::Slowness> all = observe::read_slowness(run_folder());
    std::erase_if(all, [](const observe::Slowness& one) {
      return one.ended || one.what == "steps" || one.excess < least_told || one.text.starts_with("the ");
    });
    return all;
  }

  std::filesystem::path run_folder() const { return folder_ / "run"; }
  const std::atomic<bool>* active() const { return &active_; }

 private:
  class Activation : public train::Hook {
   public:
    explicit Activation(std::atomic<bool>& active) : active_(active) {}
    void after_step(train::Trainer&, const train::StepReport& report) override {
      if (report.metrics.step == slow_from - 1) active_ = true;
    }

   private:
    std::atomic<bool>& active_;
  };

  config::Config watched_config(const std::vector<std::string>& keys) const {
    std::vector<std::string> all = {"train.threads=1",       "train.steps=36",      "train.evaluate_every=0",
                                    "model.width=96",        "model.layers=4",      "model.sequence=64",
                                    "train.global_batch=32", "train.micro_batch=1", "checkpoint.every=0"};
    all.insert(all.end(), keys.begin(), keys.end());
    return tiny_config(all);
  }

  std::atomic<bool> active_ = false;
};

}  // namespace terrace::run
