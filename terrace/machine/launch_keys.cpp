// Checks what may stand in a job's script, so that no value breaks out of its line.
#include "terrace/machine/launch_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace terrace::machine {
namespace {

// Options that terrace launch writes into a script itself.
constexpr std::array<std::string_view, 13> own_options = {
    "--nodes", "--ntasks",    "--ntasks-per-node", "--cpus-per-task", "--time",      "--signal", "--requeue",
    "--chdir", "--open-mode", "--output",          "--job-name",      "--partition", "--account"};

constexpr std::string_view own_letters = "NntcpAJoD";  // the short names of those that have one

bool is_letter(char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }
bool is_blank(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }

bool is_variable_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, [](char letter) {
    return is_letter(letter) || std::isdigit(static_cast<unsigned char>(letter)) != 0;
  });
}

}  // namespace

std::string environment_problem(const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const size_t equals = value.find('=');
    if (equals == std::string::npos || !is_variable_name(std::string_view(value).substr(0, equals))) {
      return fmt::format("has \"{}\", which is not NAME=VALUE; write for example \"OMP_NUM_THREADS=7\"", value);
    }
    if (value.find_first_of("\"`\\\n") != std::string::npos) {
      return fmt::format("has {}, whose value has a quotation mark, a backslash or a new line; leave them out",
                         value.substr(0, equals));
    }
  }
  return "";
}

std::string options_problem(const std::vector<std::string>& options, bool sbatch) {
  for (const std::string& option : options) {
    if (!option.starts_with('-') || std::ranges::any_of(option, is_blank)) {
      return fmt::format("has \"{}\", which is not one option without blanks; write for example \"--constraint=nvme\"",
                         option);
    }
    if (option.find_first_of("\"'`\\;&|<>()") != std::string::npos) {
      return fmt::format("has \"{}\" with a character that a shell takes for its own; leave it out", option);
    }
    const std::string_view name = std::string_view(option).substr(0, option.find('='));
    if (sbatch && std::ranges::find(own_options, name) != own_options.end()) {
      return fmt::format("has \"{}\", but terrace launch writes {} itself; leave it out", option, name);
    }
    if (sbatch && option.size() > 1 && option[1] != '-' && own_letters.find(option[1]) != std::string_view::npos) {
      return fmt::format("has \"{}\", but terrace launch writes that option itself; leave it out", option);
    }
  }
  return "";
}

std::string modules_problem(const std::vector<std::string>& modules) {
  for (const std::string& module : modules) {
    const bool plain = std::ranges::all_of(module, [](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
             std::string_view("/._+-").find(letter) != std::string_view::npos;
    });
    if (!plain) return fmt::format("has \"{}\"; write the module's name and version, as in \"rocm/7.1.1\"", module);
  }
  return "";
}

std::string word_of_slurm_problem(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::string_view("._,:+-").find(letter) != std::string_view::npos;
  });
  return plain ? "" : "must be a name of letters, digits and . _ , : + -";
}

std::string node_disk_problem(const Launch& launch) {
  if (launch.node_disk.empty()) return launch.node_disk_bytes == 0 ? "" : "is missing, but node_disk_size is given";
  if (!launch.node_disk.starts_with('/') || launch.node_disk.find_first_of("\"'`\\;&|<>() \n") != std::string::npos) {
    return "must be a folder that begins with /, without blanks, as in \"/mnt/bb/$USER\"";
  }
  return launch.node_disk_bytes > 0 ? "" : "needs node_disk_size, what a job may fill there, such as \"1 TB\"";
}

std::string longest_times_problem(const std::vector<TimeLimit>& limits) {
  for (size_t i = 0; i < limits.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (limits[i].nodes != limits[j].nodes || limits[i].partition != limits[j].partition) continue;
      return fmt::format("has two times for jobs of at most {} nodes{}; leave one of them out", limits[i].nodes,
                         limits[i].partition.empty() ? "" : " in partition " + limits[i].partition);
    }
  }
  return "";
}

}  // namespace terrace::machine
