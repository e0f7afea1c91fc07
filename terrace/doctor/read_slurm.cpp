// Reads what Slurm knows of the job: its end, and its options for the network.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

// The value of a name in "Name=value Name=value ..", whose values have no spaces where they are asked for here; "" for
// "(null)".
std::optional<std::string> field_of(const std::string& text, std::string_view name) {
  const std::string begin = " " + std::string(name) + "=";
  const size_t at = text.find(begin);
  if (at == std::string::npos) return std::nullopt;
  const size_t from = at + begin.size();
  const std::string value = text.substr(from, text.find_first_of(" \n", from) - from);
  return value == "(null)" ? "" : value;
}

// The time of a text such as "2026-11-27T12:00:00" in local time.
std::optional<std::time_t> time_of(const std::string& text) {
  std::tm parts = {};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

// Newer versions of Slurm give the job its end in seconds since 1970.
std::optional<std::time_t> end_of(const NodeView& view, const std::string& job) {
  const std::string variable = view.variable("SLURM_JOB_END_TIME").value_or("");
  int64_t seconds = 0;
  if (std::from_chars(variable.data(), variable.data() + variable.size(), seconds).ec == std::errc()) return seconds;
  return time_of(field_of(job, "EndTime").value_or(""));
}

}  // namespace

// The first rank alone asks for what no variable says. srun takes the variable SLURM_NETWORK as its options, and Slurm
// does not set it from those of sbatch.
void read_slurm(const NodeView& view, const ReadOptions& options, Readings& readings) {
  const std::string id = view.variable("SLURM_JOB_ID").value_or("");
  const std::optional<std::string> network = view.variable("SLURM_NETWORK");
  const bool knows_all = network && view.variable("SLURM_JOB_END_TIME");
  std::string job;
  if (!id.empty() && !knows_all && options.rank == 0 && view.slurm_job) job = view.slurm_job(id);
  if (const auto options_of_job = network ? network : field_of(job, "Network")) {
    readings.knows_network = true;
    readings.network = *options_of_job;
  }
  if (const auto end = end_of(view, job)) {
    const auto left = std::chrono::system_clock::from_time_t(*end) - view.now;
    readings.seconds_left = std::max(0.0, std::chrono::duration<double>(left).count());
  }
}

}  // namespace terrace::doctor
