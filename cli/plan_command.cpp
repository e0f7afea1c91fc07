// Writes the options of a plan as a command line for a shell.
#include "cli/plan_command.h"

#include "terrace/base/text/shell_word.h"

namespace terrace::cli {

std::string plan_command(const PlannedTarget& target, int64_t devices) {
  std::string command = "terrace plan";
  if (!target.text) command += " " + shell_word(target.config);
  for (const std::string& word : target.launch) command += " " + shell_word(word);
  command += " --machine " + shell_word(target.machine) + " --software " + shell_word(target.software) + " --devices " +
             std::to_string(devices);
  if (target.groups > 0) command += " --groups " + std::to_string(target.groups);
  if (!target.products.empty()) command += " --products " + target.products;
  for (const std::string& setting : target.overrides) command += " --set " + shell_word(setting);
  return command;
}

}  // namespace terrace::cli
