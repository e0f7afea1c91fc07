// Runs squeue and sbatch, and reads what they print.
#include "terrace/launch/slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/text/shell_word.h"

namespace terrace::launch {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::ranges::all_of(word, [](char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; });
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

CommandOutput output_of(const std::string& shell_command) {
  std::FILE* pipe = ::popen(("{ " + shell_command + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return {.code = 127, .output = "no shell could be started"};
  CommandOutput result;
  std::array<char, 4096> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) result.output.append(part.data(), count);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  while (!result.output.empty() && std::isspace(static_cast<unsigned char>(result.output.back())) != 0) {
    result.output.pop_back();
  }
  return result;
}

bool SlurmJob::is_waiting() const { return is_one_of(state, {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}); }

std::string SlurmJob::way_out_of_hold(const std::string& number) const {
  if (!is_waiting()) return "";
  // Slurm's versions write them as JobHeldUser, "launch failed requeued held" or launch_failed_requeued_held.
  const bool is_held = is_one_of(state, {"REQUEUE_HOLD", "SPECIAL_EXIT"}) || reason.find("Held") != reason.npos ||
                       reason.find("held") != reason.npos || reason.find("JobHold") != reason.npos;
  if (is_held) {
    return fmt::format("scontrol release {} lets it begin{}", number,
                       reason == "JobHeldAdmin" ? ", by an administrator alone" : "");
  }
  if (is_one_of(reason, {"DependencyNeverSatisfied", "BadConstraints"})) {
    return fmt::format("it will never begin: end it with scancel {} and submit it again", number);
  }
  return "";
}

bool SlurmJob::is_active() const {
  return is_one_of(state, {"RUNNING", "CONFIGURING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "SIGNALING", "STOPPED"});
}

std::optional<JobsByNumber> ask_squeue(const std::vector<std::string>& jobs) {
  std::vector<std::string> numbers;
  std::ranges::copy_if(jobs, std::back_inserter(numbers), is_number);
  if (numbers.empty()) return JobsByNumber{};
  const CommandOutput asked = output_of(
      fmt::format("timeout 30 squeue --noheader --states=all '--format=%A|%T|%r' --jobs={}", fmt::join(numbers, ",")));
  // squeue fails with these words for a single job that Slurm has forgotten.
  if (asked.code != 0 && asked.output.find("Invalid job id") != std::string::npos) return JobsByNumber{};
  if (asked.code != 0) return std::nullopt;
  JobsByNumber found;
  std::string_view text = asked.output;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t first = line.find('|'), second = first == line.npos ? first : line.find('|', first + 1);
    if (second != line.npos) {
      found[std::string(line.substr(0, first))] = {.state = std::string(line.substr(first + 1, second - first - 1)),
                                                   .reason = std::string(line.substr(second + 1))};
    }
    text = end == text.npos ? "" : text.substr(end + 1);
  }
  return found;
}

std::string submit_script(const std::string& file) {
  const CommandOutput submitted = output_of("sbatch --parsable " + shell_word(file));
  if (submitted.code == 127) {
    throw UserError::of("there is no sbatch on this machine; submit {} where Slurm is, or use --with mpirun", file);
  }
  // "12" or "12;cluster"; a site may print more in front of it.
  const std::string& output = submitted.output;
  const std::string last = output.substr(output.rfind('\n') == std::string::npos ? 0 : output.rfind('\n') + 1);
  std::string number = last.substr(0, last.find(';'));
  if (submitted.code != 0 || !is_number(number)) {
    throw UserError::of("sbatch did not take {}: {}", file, output.empty() ? "it said nothing" : output);
  }
  return number;
}

}  // namespace terrace::launch
