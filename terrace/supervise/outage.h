// The time from a failure to the next step, part by part.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/observe/run_process.h"

namespace terrace::supervise {

struct Outage {
  using Clock = std::chrono::steady_clock;

  std::string what;  // "the loss of node2"
  Clock::time_point last_sign = {}, noticed = {}, ended = {}, chosen = {};
  std::optional<Clock::time_point> begun = {};  // when the run's first rank had read its configuration
  int64_t from_step = 0;                        // from which the run continues

  // "the loss of node2: 9.1 s to the next step, .."
  std::string text(Clock::time_point first_step) const;
  // An object with the figures of the text: what, step (the first one), and seconds with noticing, ending, choosing,
  // starting, reading and all, which is their sum.
  Json json(Clock::time_point first_step) const;
};

// The file in the run's folder with an object for each failure and for each time until the next step, a line each; each
// has "time", seconds since the epoch.
inline constexpr const char* failures_name = "failures.jsonl";
// Adds a line. A folder that is not there yet, or cannot be written to, is logged, and the run goes on.
void note_failure(const std::filesystem::path& folder, Json line);

// Follows the files in a run's folder from the start of its ranks to their first step.
class FirstStep {
 public:
  explicit FirstStep(std::filesystem::path folder);

  // Whether the ranks have taken the run's folder since this object was made.
  bool has_begun();
  // Whether they have made a step since.
  bool is_made();
  int64_t from_step() const { return from_step_; }  // once it has begun
  std::optional<observe::RunProcess> record() const { return observe::read_run_process(folder_); }

 private:
  std::filesystem::file_time_type changed() const;

  std::filesystem::path folder_;
  std::string record_before_;
  std::filesystem::file_time_type changed_before_;
  bool has_begun_ = false, is_made_ = false;
  int64_t from_step_ = 0;
};

}  // namespace terrace::supervise
