// Throws in one rank, and removes the folder that stands for its node's memory.
#include "terrace/rehearse/killed_rank.h"

#include <fmt/format.h>

#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"

namespace terrace::rehearse {

class Killer::KillHook : public train::Hook {
 public:
  explicit KillHook(Killer& killer) : killer_(killer) {}

  double learning_rate(const train::Trainer& trainer, int64_t step, double scheduled) override {
    const KilledRank& killed = killer_.killed_;
    if (trainer.rank() != killed.rank || step != killed.step || killer_.killed_at_) return scheduled;
    killer_.killed_at_ = std::chrono::steady_clock::now();
    throw RankKilled(fmt::format("killed in step {} by --kill", step));
  }
  void after_step(train::Trainer&, const train::StepReport&) override {}

 private:
  Killer& killer_;
};

std::unique_ptr<train::Hook> Killer::hook() { return std::make_unique<KillHook>(*this); }

void lose_memory_of_node(const config::Config& config, int64_t node) {
  const std::filesystem::path run = memory_of(config.checkpoint.memory_folder, config.checkpoint.folder);
  std::filesystem::remove_all(run / numbered_node(host_name(), node));
}

}  // namespace terrace::rehearse
