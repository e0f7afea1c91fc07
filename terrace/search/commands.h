// Trials that are commands of the user. A command gets a trial's values and writes its figures as JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/child_process.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

// The names in braces, {layout.tensor}, each once, in the order of the text. Braces behind a dollar sign and braces
// around anything but a name are the shell's.
std::vector<std::string> names_in_command(const std::string& command);
// The command with the value of each name in its place.
std::string filled_command(const std::string& command,
                           const std::function<std::string(const std::string& name)>& value_of);

// What a command may name beside parameters and derived numbers.
inline constexpr const char* command_names[] = {"result", "folder", "config", "budget", "trial"};

class Commands : public TrialEvaluator {
 public:
  // Each trial has a folder in folder/trials. The study outlives this.
  Commands(const Study& study, std::filesystem::path folder);

  Outcome evaluate(const Job& job) override;
  bool is_exact() const override { return false; }

 private:
  std::string command_for(const Job& job, const std::filesystem::path& folder) const;
  Outcome read_result(const std::filesystem::path& path) const;

  const Study& study_;
  std::filesystem::path folder_;
  ChildProcesses children_;
};

}  // namespace terrace::search
