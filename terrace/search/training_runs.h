// Trials that are training runs: each starts `terrace train` with the point's configuration.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/system/child_process.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

class TrainingRuns : public TrialEvaluator {
 public:
  // `program` is a terrace that can train; runs lie in folder/trials. The study outlives this.
  TrainingRuns(const Study& study, std::filesystem::path folder, std::string program);

  bool is_exact() const override { return false; }
  void stop() override { children_.end_all(); }
  void finish(const std::vector<int64_t>& best) override;

  // The command that starts a trial's run.
  std::vector<std::string> command_of(const TrialJob& job, const std::filesystem::path& config_file,
                                      int64_t train_steps) const;

 private:
  // The figures are those of observe::summarize_run(). A job with a budget ends after so many steps; one that continues
  // a trial continues its run from the newest checkpoint.
  Outcome run(const TrialJob& job) override;
  config::Config configuration_for(const TrialJob& job) const;
  void remove_checkpoints(int64_t trial) const;

  const Study& study_;
  std::filesystem::path folder_;
  std::string program_;
  ChildProcesses children_;
};

}  // namespace terrace::search
