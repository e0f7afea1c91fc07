// Compares the reasons of the first failures.
#include "terrace/search/proposals/first_trials.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

bool is_digit(std::string_view text, size_t place) {
  return place < text.size() && text[place] >= '0' && text[place] <= '9';
}

// Whether a time of day such as 13:05:09 begins at `place`.
bool is_time_of_day(std::string_view text, size_t place) {
  static constexpr std::string_view shape = "dd:dd:dd";
  if (text.size() - place < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 'd' ? !is_digit(text, place + i) : text[place + i] != shape[i]) return false;
  }
  return true;
}

// The last line of a reason without times and without the trial's folder, which differ between equal failures.
std::string cause_of(const std::string& reason, int64_t trial) {
  const std::string_view line = std::string_view(reason).substr(reason.rfind('\n') + 1);
  const std::string folder = fmt::format("trials/{}", trial);
  std::string cause;
  for (size_t place = 0; place < line.size();) {
    if (is_time_of_day(line, place)) {
      place += std::string_view("00:00:00").size();
    } else if (line.substr(place, folder.size()) == folder && !is_digit(line, place + folder.size())) {
      place += folder.size();
    } else {
      cause += line[place++];
    }
  }
  return cause;
}

}  // namespace

void refuse_missing_program(const Trial& trial, const std::vector<Trial>& trials) {
  if (trial.outcome.failure != "start" || !std::ranges::all_of(trials, &Trial::failed)) return;
  throw UserError::of("the program of trial {} cannot be started: {}", trial.trial, trial.outcome.reason);
}

void refuse_missing_goal(const std::vector<Trial>& trials) {
  constexpr size_t enough = 3;
  const auto lacks_goal = [](const Trial& trial) { return trial.outcome.failure == "objective"; };
  if (trials.size() < enough || !std::ranges::all_of(trials, lacks_goal)) return;
  const Trial& first = trials.front();
  throw UserError::of("no trial gives the objective: trial {}: {}", first.trial, first.outcome.reason);
}

void refuse_repeated_failure(const std::vector<Trial>& trials, size_t judged) {
  constexpr size_t enough = 10;
  if (trials.size() < enough || judged >= enough) return;
  const auto cause = [](const Trial& trial) {
    return trial.failed() ? cause_of(trial.outcome.reason, trial.trial) : std::string();
  };
  const std::string first = cause(trials.front());
  if (first.empty() || !std::ranges::all_of(trials, [&](const Trial& one) { return cause(one) == first; })) return;
  throw UserError(fmt::format("each of the first {} trials failed with: {}. The search goes on with the same command",
                              trials.size(), trials.front().outcome.reason),
                  ExitCode::infeasible);
}

}  // namespace terrace::search
