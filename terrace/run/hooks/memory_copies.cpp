// Copies the states into the memory of nodes at the configured steps, and removes the copies when the run has saved its
// last checkpoint.
#include "terrace/checkpoint/memory_copies.h"

#include <memory>
#include <string>
#include <utility>

#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/terminal/log.h"
#include "terrace/profile/record.h"
#include "terrace/run/hooks/before_write.h"
#include "terrace/run/hooks/finite_weights.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

// With layout.ranks_per_node the ranks of one host may be those of several nodes.
std::string node_of(const config::Config& config, const comm::World& world) {
  const int64_t set = config.layout.ranks_per_node;
  if (set == 0 || set >= world.ranks_per_node()) return host_name();
  return numbered_node(host_name(), world.rank() / set);
}

class MemoryHook : public train::Hook {
 public:
  MemoryHook(train::Trainer& trainer, SharedMetrics metrics, comm::World& world)
      : metrics_(std::move(metrics)),
        every_(trainer.config().checkpoint.memory_every),
        ranks_(world.connect(mesh::all_ranks("memory copies", world.size()))) {
    ranks_->lift_time_limit();  // other ranks may have more to write
    const config::CheckpointConfig& config = trainer.config().checkpoint;
    saver_ = std::make_unique<checkpoint::MemorySaver>(
        checkpoint::MemorySaver::Options{.memory = config.memory_folder,
                                         .run_folder = config.folder,
                                         .node = node_of(trainer.config(), world),
                                         .check = check_finite,
                                         .before_write = [this] { sync_metrics(metrics_); },
                                         .ranks = ranks_.get()});
    if (trainer.rank() != 0) return;
    if (saver_->nodes() == 1) {
      log_info("states are copied into {} every {} steps: on one node a copy outlives the ranks, but not the node",
               config.memory_folder, every_);
    } else {
      log_info("states are copied into {} of two nodes every {} steps", config.memory_folder, every_);
    }
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (report.metrics.step % every_ != 0 || trainer.all_steps_done()) return;
    const profile::PhaseRecord record("copy to memory");
    saver_->save(trainer.state());
  }

  void finish_background_work() override { saver_->finish(); }

  void at_end(train::Trainer&) override {
    saver_->finish();
    saver_->remove();  // the last checkpoint is on the disk
    if (saver_->failures() > 0 && metrics_) {
      log_warning("copies of the states in memory that could not be made: {}", saver_->failures());
    }
  }

 private:
  SharedMetrics metrics_;
  int64_t every_;
  std::unique_ptr<comm::Comm> ranks_;
  std::unique_ptr<checkpoint::MemorySaver> saver_;  // destroyed first: its thread uses the members above
};

}  // namespace

std::unique_ptr<train::Hook> make_memory_hook(train::Trainer& trainer, SharedMetrics metrics, comm::World& world) {
  return std::make_unique<MemoryHook>(trainer, std::move(metrics), world);
}

}  // namespace terrace::run
