// Trials that are commands of the user. A command gets a trial's values and writes its figures as JSON.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/system/child_process.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

// The names that a command may use beside those of parameters and derived numbers.
inline constexpr const char* command_names[] = {"result", "folder", "config", "budget", "trial"};

class Commands : public TrialEvaluator {
 public:
  // Each trial has a folder in folder/trials. The study outlives this.
  Commands(const Study& study, std::filesystem::path folder);

  bool is_exact() const override { return false; }
  void stop() override { children_.end_all(); }

 private:
  Outcome run(const TrialJob& job) override;
  std::string command_for(const TrialJob& job, const std::filesystem::path& folder) const;
  Outcome read_result(const std::filesystem::path& path) const;

  const Study& study_;
  std::filesystem::path folder_;
  ChildProcesses children_;
};

}  // namespace terrace::search
