// Works out a job's numbers from the prediction of a step, the size of a checkpoint and the machine's [launch].
#include "terrace/launch/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/plural.h"
#include "terrace/base/units.h"
#include "terrace/launch/job_time.h"
#include "terrace/machine/software.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/run_cost.h"

namespace terrace::launch {
namespace {

namespace fs = std::filesystem;

// Where a machine states no storage: one client of a slow file system.
constexpr double assumed_bandwidth = 1e9;
constexpr double most_job_seconds = 86'400;  // where the machine does not state how long jobs may be
constexpr double start_seconds = 600;        // to load the program and the data, generously

double rounded_up(double seconds, double unit) { return std::ceil(seconds / unit) * unit; }

// Bytes that are free where the folder is, or will be.
std::optional<double> free_bytes(fs::path folder) {
  std::error_code missing;
  while (!fs::exists(folder, missing) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, missing);
  if (missing) return std::nullopt;
  return static_cast<double>(space.available);
}

void choose_times(Job& job) {
  const double step = job.prediction.step_seconds;
  const double needed = step + job.save_seconds;
  const double given = job.request.signal_seconds;
  if (given > 0 && given < needed) {
    throw UserError::of(
        "--signal-before {:.0f} is less than a step ({}) and a save ({}) are predicted to take; give at least {:.0f}, "
        "or leave it out for {:.0f}",
        given, format_seconds(step), format_seconds(job.save_seconds), std::ceil(needed),
        signal_seconds_for(step, job.save_seconds));
  }
  job.signal_seconds = given > 0 ? given : signal_seconds_for(step, job.save_seconds);
  const double longest = job.request.machine.launch.longest_seconds;
  const double least = job.signal_seconds + needed;
  if (job.request.time_seconds > 0) {
    job.time_seconds = job.request.time_seconds;
    if (longest > 0 && job.time_seconds > longest) {
      throw UserError::of("--time {} is longer than jobs on {} may be, {} ([launch] longest_time); give at most that{}",
                          job_time_text(job.time_seconds), job.request.machine.name, job_time_text(longest),
                          job.request.until_done ? "" : ", with --until-done for as many jobs as the run needs");
    }
    if (job.time_seconds < least) {
      throw UserError::of(
          "--time {} is too short to train in: the run is asked to save {:.0f} s before the end, and a step and a save "
          "take {}; give at least {}",
          job_time_text(job.time_seconds), job.signal_seconds, format_seconds(needed),
          job_time_text(rounded_up(least, 60)));
    }
    return;
  }
  const double most = longest > 0 ? longest : most_job_seconds;
  const double wanted = 1.25 * job.run_seconds + start_seconds + job.signal_seconds;
  job.time_seconds = std::isfinite(wanted) ? std::min(most, rounded_up(wanted, 600)) : most;
}

void note_times(Job& job) {
  const machine::Machine& machine = job.request.machine;
  if (machine.launch == machine::Launch{}) {
    job.notes.push_back(
        fmt::format("{} has no [launch], so the script asks for no partition, account or devices; "
                    "docs/machines.md says what stands there",
                    machine.source()));
  }
  if (machine.launch.needs_account && machine.launch.account.empty()) {
    job.notes.push_back(fmt::format("{} takes no job without an account: give --account NAME", machine.name));
  }
  if (machine.storage.node_bandwidth == 0 && machine.storage.total_bandwidth == 0) {
    job.notes.push_back(fmt::format("{} states no [storage], so a save is taken for {}, at {}/s a node",
                                    machine.source(), format_seconds(job.save_seconds),
                                    format_bytes(assumed_bandwidth)));
  }
  const double left = job.time_seconds - job.signal_seconds;
  if (job.run_seconds > left && !job.request.until_done) {
    job.notes.push_back(fmt::format(
        "all {} steps are predicted to take {}, more than this job of {}: submit it again when it has "
        "stopped, or add --until-done",
        format_count(job.request.config.train.steps),
        std::isfinite(job.run_seconds) ? format_days(job.run_seconds) : "for ever", job_time_text(job.time_seconds)));
  }
  const config::CheckpointConfig& checkpoint = job.request.config.checkpoint;
  const double interval = static_cast<double>(checkpoint.every) * job.prediction.step_seconds;
  if (checkpoint.every == 0 || interval > left) {
    job.notes.push_back(
        fmt::format("checkpoint.every = {}: nothing is saved before this job is asked to stop, so a "
                    "node that fails costs all of it; {} steps take half an hour",
                    checkpoint.every, std::max<int64_t>(1, std::llround(1800 / job.prediction.step_seconds))));
  }
}

void count_checkpoints(Job& job) {
  const std::optional<double> free = free_bytes(job.run_folder());
  if (!free || job.checkpoint_bytes <= 0) return;
  const auto fit = static_cast<int64_t>(std::min(1e15, *free / job.checkpoint_bytes));
  job.checkpoints_that_fit = fit;
  const config::CheckpointConfig& checkpoint = job.request.config.checkpoint;
  const int64_t saves = checkpoint.every > 0 ? job.request.config.train.steps / checkpoint.every + 1 : 1;
  // Those that are kept, and the one that is being written.
  const int64_t wanted = checkpoint.keep > 0 ? std::min(saves, checkpoint.keep + 1) : saves;
  if (fit >= wanted) return;
  const std::string way_out = fit >= 2 ? fmt::format("set checkpoint.keep = {}", fit - 1)
                                       : std::string("name a checkpoint.folder on a larger disk");
  job.notes.push_back(fmt::format("{} of {} each are wanted (checkpoint.keep = {}) and {} fit: {} are free at {}; {}",
                                  counted(static_cast<uint64_t>(wanted), "checkpoint"),
                                  format_bytes(job.checkpoint_bytes), checkpoint.keep, fit, format_bytes(*free),
                                  job.run_folder().string(), way_out));
}

// At most two checkpoints at a time are staged, each node's ranks their own shares of them.
void choose_staging(Job& job) {
  const machine::Launch& launch = job.request.machine.launch;
  const config::CheckpointConfig& checkpoint = job.request.config.checkpoint;
  if (launch.node_disk.empty() || !checkpoint.saves_beside_training() || !checkpoint.staging.empty()) return;
  const double staged = 2 * job.checkpoint_bytes / static_cast<double>(job.request.nodes);
  job.stages = staged <= launch.node_disk_bytes;
  if (!job.stages) {
    job.notes.push_back(fmt::format("checkpoints are not staged on {}: two of them take {} a node, and it has {}",
                                    launch.node_disk, format_bytes(staged), format_bytes(launch.node_disk_bytes)));
  }
}

}  // namespace

fs::path Job::run_folder() const {
  fs::path folder = (request.working_folder / request.config.checkpoint.folder).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

std::string Job::name() const {
  std::string name = "terrace-" + run_folder().filename().string();
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' && letter != '_') letter = '-';
  }
  return name;
}

fs::path Job::log_file(const std::string& job_number) const {
  return request.working_folder / fmt::format("{}-{}.log", name(), job_number);
}

double signal_seconds_for(double step_seconds, double save_seconds) {
  return std::max(120.0, rounded_up(2 * (step_seconds + save_seconds) + 60, 60));
}

Job make_job(JobRequest request) {
  Job job{.request = std::move(request)};
  job.ranks_per_node = job.request.machine.devices_of("node");
  job.ranks = job.request.nodes * job.ranks_per_node;
  const plan::Target target{
      .machine = job.request.machine, .software = machine::load_software("terrace"), .devices = job.ranks};
  job.prediction = plan::predict(job.request.config, target);
  if (!job.prediction.feasible()) throw UserError(job.prediction.reason, ExitCode::infeasible);
  job.run_seconds = plan::run_cost(job.request.config, job.prediction, target).seconds;
  const plan::CheckpointEstimate checkpoint = plan::checkpoint_estimate(job.prediction, target);
  job.checkpoint_bytes = checkpoint.bytes;
  job.save_seconds = checkpoint.seconds > 0
                         ? checkpoint.seconds
                         : checkpoint.bytes / (assumed_bandwidth * static_cast<double>(job.request.nodes));
  if (job.request.with_slurm) {
    choose_times(job);
    note_times(job);
  }
  count_checkpoints(job);
  choose_staging(job);
  return job;
}

std::string summary_of(const Job& job) {
  const std::string fit =
      job.checkpoints_that_fit ? fmt::format(", {} fit", format_count(*job.checkpoints_that_fit)) : std::string();
  std::string text = fmt::format(
      "{} on {} of {}; predicted: {} a step, {} for all {} steps; a checkpoint of {} is saved in {}{}",
      counted(static_cast<uint64_t>(job.ranks), "rank"), counted(static_cast<uint64_t>(job.request.nodes), "node"),
      job.request.machine.name, format_seconds(job.prediction.step_seconds),
      std::isfinite(job.run_seconds) ? format_days(job.run_seconds) : "endless time",
      format_count(job.request.config.train.steps), format_bytes(job.checkpoint_bytes),
      format_seconds(job.save_seconds), fit);
  if (job.request.with_slurm) {
    text += fmt::format("; the run is asked to save {:.0f} s before the end of {}", job.signal_seconds,
                        job_time_text(job.time_seconds));
  }
  for (const std::string& note : job.notes) text += "\n  " + note;
  return text;
}

Json json_of(const Job& job) {
  return {{"ranks", job.ranks},
          {"nodes", job.request.nodes},
          {"step_seconds", job.prediction.step_seconds},
          {"time_seconds", job.request.with_slurm ? Json(job.time_seconds) : Json()},
          {"signal_seconds", job.request.with_slurm ? Json(job.signal_seconds) : Json()},
          {"checkpoint_bytes", job.checkpoint_bytes},
          {"save_seconds", job.save_seconds},
          {"checkpoints_that_fit", job.checkpoints_that_fit ? Json(*job.checkpoints_that_fit) : Json()},
          {"run_folder", job.run_folder().string()},
          {"notes", job.notes}};
}

}  // namespace terrace::launch
