// Reads the ends of a run's metrics and log, and what its process left.
#include "terrace/launch/run_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <fstream>
#include <system_error>

#include "terrace/base/files/file.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/units.h"
#include "terrace/launch/job_record.h"
#include "terrace/observe/last_metrics.h"
#include "terrace/observe/run_process.h"

namespace terrace::launch {
namespace {

namespace fs = std::filesystem;
using observe::ProcessState;
using observe::RunProcess;

constexpr std::array<std::string_view, 6> state_words = {"queued", "held", "running", "done", "stopped", "failed"};
constexpr size_t recent_steps = 20;

// The content of the files of a run's folder.
struct RunFiles {
  std::optional<JobRecord> job;
  std::optional<RunProcess> trainer;
  observe::RunMetrics metrics;
  bool has_run = false;  // run.json is there
  int64_t steps = 0;

  // The numbers of all jobs that may train the run.
  std::vector<std::string> jobs() const {
    std::vector<std::string> numbers;
    if (job && !job->job.empty()) numbers.push_back(job->job);
    if (trainer && !trainer->job.empty() && (!job || trainer->job != job->job)) numbers.push_back(trainer->job);
    return numbers;
  }
};

int64_t steps_in(const fs::path& run_json) {
  const Json facts = parse_json_or_discard(read_text(run_json));
  return facts.is_object() && facts.contains("steps") && facts["steps"].is_number_integer()
             ? facts["steps"].get<int64_t>()
             : 0;
}

RunFiles read_files(const fs::path& folder) {
  RunFiles files{.job = read_job_record(folder),
                 .trainer = observe::read_run_process(folder),
                 .metrics = observe::read_last_metrics(folder),
                 .has_run = fs::exists(folder / "run.json")};
  if (files.has_run) files.steps = steps_in(folder / "run.json");
  if (files.steps == 0 && files.job) files.steps = files.job->steps;
  return files;
}

std::optional<double> median_of_recent(const observe::RunMetrics& metrics, double observe::StepMetrics::*number) {
  std::vector<double> values;
  for (auto it = metrics.steps.rbegin(); it != metrics.steps.rend() && values.size() < recent_steps; ++it) {
    if (std::isfinite(it->second.*number)) values.push_back(it->second.*number);
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double longest_recent_step(const observe::RunMetrics& metrics) {
  double longest = 0;
  size_t count = 0;
  for (auto it = metrics.steps.rbegin(); it != metrics.steps.rend() && count < recent_steps; ++it, ++count) {
    longest = std::fmax(longest, it->second.step_seconds);
  }
  return longest;
}

// Seconds since the newest of the files that a run writes as it goes on, or since a checkpoint.
std::optional<double> seconds_since_sign(const fs::path& folder) {
  std::optional<fs::file_time_type> newest;
  for (const fs::path& file : {folder / "metrics.jsonl", folder / ".process.json", folder}) {
    std::error_code missing;
    const fs::file_time_type time = fs::last_write_time(file, missing);
    if (!missing && (!newest || time > *newest)) newest = time;
  }
  if (!newest) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - *newest).count());
}

std::string last_line(const std::string& log) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<int64_t>(file.tellg()), begin = std::max<int64_t>(0, size - 4096);
  std::string text(static_cast<size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), std::ssize(text));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  const size_t line = text.find_last_of("\r\n");
  return line == std::string::npos ? text : text.substr(line + 1);
}

std::string job_text(const std::string& job, const SlurmJob& known) {
  const bool says_why = !known.reason.empty() && known.reason != "None";
  return fmt::format("job {} is {}{}", job, known.state, says_why ? " (" + known.reason + ")" : "");
}

// Whether a run whose process has not said that it ended still trains.
class Liveness {
 public:
  Liveness(const RunFiles& files, const std::optional<JobsByNumber>& slurm, RunStatus& status)
      : files_(files), slurm_(slurm), status_(status) {}

  void decide() {
    const auto& trainer = files_.trainer;
    const bool here = trainer && trainer->state == ProcessState::running && trainer->identity.is_of_this_host();
    if (here && !trainer->identity.has_ended()) return set_running("");
    if (decide_by_waiting_or_beginning_job()) return;
    if (!trainer) return decide_without_process();
    if (trainer->state == ProcessState::finished) return set(RunState::done, "");
    if (trainer->state == ProcessState::stopped) return set(RunState::stopped, trainer->reason);
    if (trainer->state == ProcessState::failed) return set(RunState::failed, trainer->reason);
    const std::string who = fmt::format("process {} on {}", trainer->identity.process_id, trainer->identity.host);
    if (here) return set(RunState::failed, who + " has died without a word" + end_of_job());
    if (!trainer->job.empty() && slurm_) {
      const auto known = slurm_->find(trainer->job);
      if (known != slurm_->end() && known->second.is_active()) return set_running("");
      return set(RunState::failed,
                 fmt::format("job {} is over, and the run did not end by itself{}", trainer->job, end_of_job()));
    }
    decide_by_silence(who);
  }

 private:
  void set(RunState state, std::string reason) {
    status_.state = state;
    status_.reason = std::move(reason);
  }

  // A run that lives and has written nothing for long may hang; that is said beside its state.
  void set_running(std::string reason) {
    if (reason.empty() && is_silent()) reason = "silent for " + format_seconds(*status_.seconds_since_sign);
    if (reason.empty() && status_.step == 0) reason = "no step yet";
    set(RunState::running, std::move(reason));
  }

  bool is_silent() const {
    return status_.seconds_since_sign &&
           *status_.seconds_since_sign > silence_allowed(longest_recent_step(files_.metrics));
  }

  // The job of terrace launch waits in the queue, or has begun and not yet started the ranks.
  bool decide_by_waiting_or_beginning_job() {
    if (!slurm_) return false;
    const bool finished = files_.trainer && files_.trainer->state == ProcessState::finished;
    for (const std::string& job : files_.jobs()) {
      const auto known = slurm_->find(job);
      if (known == slurm_->end()) continue;
      const bool of_process =
          files_.trainer && files_.trainer->state == ProcessState::running && files_.trainer->job == job;
      if (known->second.is_waiting()) {
        const std::string way_out = known->second.way_out_of_hold(job);
        set(way_out.empty() ? RunState::queued : RunState::held,
            job_text(job, known->second) + (way_out.empty() ? "" : ": " + way_out));
        return true;
      }
      if (known->second.is_active() && !of_process && !finished) {
        set_running(fmt::format("job {} begins or ends", job));
        return true;
      }
    }
    return false;
  }

  void decide_without_process() {
    if (!files_.has_run) {
      const std::string& job = files_.job->job;
      if (!slurm_) return set(RunState::queued, fmt::format("job {} was submitted; squeue cannot be asked here", job));
      return set(RunState::failed, fmt::format("job {} ended before the run began{}", job, end_of_job()));
    }
    // A run of an earlier version, which recorded no process.
    if (files_.steps > 0 && status_.step >= files_.steps) return set(RunState::done, "");
    decide_by_silence("its process");
  }

  void decide_by_silence(const std::string& who) {
    if (!is_silent()) return set_running("");
    set(RunState::failed,
        fmt::format("silent for {}, longer than the {} that are allowed; {} cannot be asked from here "
                    "and is taken for dead",
                    format_seconds(*status_.seconds_since_sign),
                    format_seconds(silence_allowed(longest_recent_step(files_.metrics))), who));
  }

  // "; job 12 is TIMEOUT", where Slurm still knows it.
  std::string end_of_job() const {
    if (!slurm_) return "";
    for (const std::string& job : files_.jobs()) {
      const auto known = slurm_->find(job);
      if (known != slurm_->end()) return "; " + job_text(job, known->second);
    }
    return "";
  }

  const RunFiles& files_;
  const std::optional<JobsByNumber>& slurm_;
  RunStatus& status_;
};

RunStatus status_from(const fs::path& folder, const RunFiles& files, const std::optional<JobsByNumber>& slurm) {
  RunStatus status{.folder = folder.string(), .steps = files.steps};
  if (!files.jobs().empty()) status.job = files.jobs().front();
  if (!files.metrics.steps.empty()) {
    const observe::StepMetrics& last = files.metrics.steps.rbegin()->second;
    status.step = last.step;
    if (std::isfinite(last.loss)) status.loss = last.loss;
    status.items = files.metrics.names.items;
    status.items_per_second = median_of_recent(files.metrics, &observe::StepMetrics::items_per_second);
  }
  status.seconds_since_sign = seconds_since_sign(folder);
  if (files.job) status.last_words = last_line(files.job->log);
  Liveness(files, slurm, status).decide();
  const auto step_seconds = median_of_recent(files.metrics, &observe::StepMetrics::step_seconds);
  if (status.state != RunState::done && step_seconds && status.steps > 0) {
    status.seconds_left = *step_seconds * static_cast<double>(std::max<int64_t>(0, status.steps - status.step));
  }
  return status;
}

std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::vector<std::string> cells_of(const RunStatus& run) {
  const std::string of = run.steps > 0 ? fmt::format(" of {}", run.steps) : "";
  std::string end = shortened(run.reason, 200);
  if (!run.last_words.empty()) end += (end.empty() ? "" : "; ") + ("log: " + shortened(run.last_words, 120));
  return {
      run.folder,
      std::string(word_of(run.state)),
      fmt::format("step {}{}", run.step, of),
      run.loss ? fmt::format("loss {:.4g}", *run.loss) : "",
      run.items_per_second
          ? fmt::format("{} {}/s", format_count(static_cast<int64_t>(std::llround(*run.items_per_second))), run.items)
          : "",
      run.seconds_left ? format_days(*run.seconds_left) + " left" : "",
      end};
}

Json or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

}  // namespace

std::string_view word_of(RunState state) { return state_words.at(static_cast<size_t>(state)); }

double silence_allowed(double longest_step_seconds) { return 120 + 10 * longest_step_seconds; }

std::vector<RunStatus> status_of(const std::vector<fs::path>& folders, const AskForJobs& ask_for_jobs) {
  std::vector<std::string> problems, jobs;
  std::vector<RunFiles> files;
  for (const fs::path& folder : folders) {
    files.push_back(read_files(folder));
    const RunFiles& own = files.back();
    if (!fs::is_directory(folder)) {
      problems.push_back(fmt::format("{} is no folder", folder.string()));
    } else if (!own.has_run && !own.job && !own.trainer) {
      problems.push_back(fmt::format(
          "{} holds no run: neither run.json nor {} is in it; give the checkpoint.folder of a configuration",
          folder.string(), job_record_name));
    }
    const std::vector<std::string> own_jobs = own.jobs();
    jobs.insert(jobs.end(), own_jobs.begin(), own_jobs.end());
  }
  throw_problems(problems, "folders that hold no run");
  const std::optional<JobsByNumber> slurm = jobs.empty() ? std::nullopt : ask_for_jobs(jobs);
  std::vector<RunStatus> runs;
  for (size_t i = 0; i < folders.size(); ++i) runs.push_back(status_from(folders[i], files[i], slurm));
  return runs;
}

std::string text_of(const std::vector<RunStatus>& runs) {
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> widths;
  for (const RunStatus& run : runs) {
    rows.push_back(cells_of(run));
    widths.resize(rows.back().size());
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], rows.back()[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] > 0) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Json json_of(const std::vector<RunStatus>& runs) {
  Json list = Json::array();
  for (const RunStatus& run : runs) {
    Json one = {{"folder", run.folder}, {"state", word_of(run.state)}, {"reason", run.reason}};
    one["job"] = run.job.empty() ? Json() : Json(run.job);
    one["step"] = run.step;
    one["steps"] = run.steps > 0 ? Json(run.steps) : Json();
    one["loss"] = or_null(run.loss);
    one[run.items + "_per_second"] = or_null(run.items_per_second);
    one["seconds_left"] = or_null(run.seconds_left);
    one["seconds_since_sign"] = or_null(run.seconds_since_sign);
    one["last_words"] = run.last_words;
    list.push_back(std::move(one));
  }
  return {{"runs", list}};
}

}  // namespace terrace::launch
