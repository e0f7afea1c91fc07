// Reads the record of the run's process and the end of its metrics.
#include "terrace/supervise/outage.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>
#include <utility>

#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/observe/last_metrics.h"

namespace terrace::supervise {
namespace {

std::string identity_in(const std::filesystem::path& folder) {
  const std::optional<observe::RunProcess> record = observe::read_run_process(folder);
  return record ? record->identity.text() : "";
}

}  // namespace

std::string Outage::text(Clock::time_point first_step) const {
  const auto between = [](Clock::time_point from, Clock::time_point to) {
    return format_seconds(std::chrono::duration<double>(to - from).count());
  };
  const Clock::time_point started = begun.value_or(first_step);
  return fmt::format(
      "{}: {} from the last sign of life to step {}: {} until it was noticed, {} to end the ranks, "
      "{} to choose nodes, {} to start the ranks, {} to read the state of step {} and make the next one",
      what, between(last_sign, first_step), from_step + 1, between(last_sign, noticed), between(noticed, ended),
      between(ended, chosen), between(chosen, started), between(started, first_step), from_step);
}

Json Outage::json(Clock::time_point first_step) const {
  const auto between = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const Clock::time_point started = begun.value_or(first_step);
  return {{"what", what},
          {"step", from_step + 1},
          {"seconds",
           {{"noticing", between(last_sign, noticed)},
            {"ending", between(noticed, ended)},
            {"choosing", between(ended, chosen)},
            {"starting", between(chosen, started)},
            {"reading", between(started, first_step)},
            {"all", between(last_sign, first_step)}}}};
}

void note_failure(const std::filesystem::path& folder, Json line) {
  using System = std::chrono::system_clock;
  line["time"] = std::chrono::duration<double>(System::now().time_since_epoch()).count();
  std::ofstream file(folder / failures_name, std::ios::app);
  file << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
  if (!file) log_warning("{} cannot be written", (folder / failures_name).string());
}

FirstStep::FirstStep(std::filesystem::path folder)
    : folder_(std::move(folder)), record_before_(identity_in(folder_)), changed_before_(changed()) {}

std::filesystem::file_time_type FirstStep::changed() const {
  std::error_code missing;
  return std::filesystem::last_write_time(folder_ / "metrics.jsonl", missing);
}

bool FirstStep::has_begun() {
  if (has_begun_) return true;
  const std::optional<observe::RunProcess> record = observe::read_run_process(folder_);
  if (!record || record->identity.text() == record_before_) return false;
  from_step_ = record->step;
  return has_begun_ = true;
}

// The lines of steps that were lost are removed before the first one is written.
bool FirstStep::is_made() {
  if (is_made_) return true;
  if (!has_begun() || changed() == changed_before_) return false;
  const observe::RunMetrics metrics = observe::read_last_metrics(folder_);
  is_made_ = !metrics.steps.empty() && metrics.steps.rbegin()->first > from_step_;
  return is_made_;
}

}  // namespace terrace::supervise
