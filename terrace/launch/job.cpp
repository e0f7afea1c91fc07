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
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/data/staging/stage_keys.h"
#include "terrace/launch/job_time.h"
#include "terrace/launch/time_limit.h"
#include "terrace/machine/launch_keys.h"
#include "terrace/machine/software.h"
#include "terrace/plan/calendar/run_calendar.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/target.h"
#include "terrace/plan/time/run_cost.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::launch {
namespace {

namespace fs = std::filesystem;

// The bandwidth assumed where a machine states no storage: one client of a slow file system.
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
  const AllowedTime allowed = allowed_time(job.request.machine, job.all_nodes());
  const double least = job.signal_seconds + needed;
  if (job.request.time_seconds > 0) {
    job.time_seconds = job.request.time_seconds;
    if (allowed.seconds > 0 && job.time_seconds > allowed.seconds) {
      throw UserError::of("--time {} is longer than {} may be, {} ([launch] {}); give at most that{}{}",
                          job_time_text(job.time_seconds), allowed.jobs, job_time_text(allowed.seconds), allowed.key,
                          job.request.until_done ? "" : ", with --until-done for as many jobs as the run needs",
                          partition_for(job.request.machine, job.all_nodes(), job.time_seconds));
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
  const double most = allowed.seconds > 0 ? allowed.seconds : most_job_seconds;
  if (most < least) {
    throw UserError::of(
        "{} may take {}, too short to train in: a step and a save take {}, and the run is asked to "
        "save {:.0f} s before the end; use more nodes, or a smaller train.global_batch{}",
        allowed.jobs, job_time_text(most), format_seconds(needed), job.signal_seconds,
        partition_for(job.request.machine, job.all_nodes(), least));
  }
  const double wanted = 1.25 * job.run_seconds + start_seconds + job.signal_seconds;
  job.time_seconds = std::isfinite(wanted) ? std::min(most, rounded_up(wanted, 600)) : most;
}

// Notes that the machine names no modules, although a site loads by them most of what GPUs need.
void note_modules(Job& job) {
  const machine::Machine& machine = job.request.machine;
  const bool is_gpu = machine.device.launch_seconds > 0;
  if (!is_gpu || !machine.launch.modules.empty()) return;
  const bool is_amd = machine.device.name.find("AMD") != std::string::npos;
  std::string needed = is_amd ? "ROCm and MPI" : "MPI, and CUDA's driver";
  if (is_amd && job.request.nodes > 1) needed = "ROCm, MPI, and the plug-in by which RCCL uses the network";
  job.notes.push_back(
      fmt::format("the job loads no modules, since {} names none ([launch] modules): {} must be found without them, or "
                  "name them in a copy of its file, or as --module NAME; terrace doctor, started by srun as the run "
                  "will be, says what is missing",
                  machine.source(), needed));
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

// Says so where the run computes on cores and what is predicted is a GPU.
void note_device(Job& job) {
  const machine::Device& device = job.request.machine.device;
  const std::optional<std::string>& kernels = job.request.kernels_for;
  const bool is_gpu = device.launch_seconds > 0, on_cores = job.request.config.train.device == "cpu";
  const auto is_of_other_maker = [&] {
    return device.name.find(*kernels == "AMD" ? "NVIDIA" : "AMD") != std::string::npos;
  };
  const bool lacks_kernels = kernels && (kernels->empty() || is_of_other_maker());
  if (!is_gpu || (!on_cores && !lacks_kernels)) return;
  const std::string reason =
      on_cores ? "train.device = \"cpu\"" : fmt::format("this program has no kernels for {}", device.name);
  if (job.request.config.train.device == "cuda") {
    job.notes.push_back(reason +
                        ": the job will refuse train.device = \"cuda\"; set it to \"cpu\", or name a program "
                        "that has them by --program");
    return;
  }
  job.notes.push_back(fmt::format(
      "{}, so the run computes on cores, but its times and memory here, and the job's time if --time is not given, are "
      "those of {}: measure a node in a short job, terrace calibrate --device cpu --output FILE, copy [launch] of {} "
      "to that file and give it as --machine",
      reason, device.name, job.request.machine.source()));
}

void count_checkpoints(Job& job) {
  const std::optional<double> free = free_bytes(job.run_folder());
  if (!free || job.checkpoint_bytes <= 0) return;
  const auto fit = static_cast<int64_t>(std::min(1e15, *free / job.checkpoint_bytes));
  job.checkpoints_that_fit = fit;
  const config::CheckpointConfig& checkpoint = job.request.config.checkpoint;
  const int64_t saves = checkpoint.every > 0 ? job.request.config.train.steps / checkpoint.every + 1 : 1;
  // The checkpoints that are kept, and the one that is being written.
  const int64_t wanted = checkpoint.keep > 0 ? std::min(saves, checkpoint.keep + 1) : saves;
  if (fit >= wanted) return;
  const std::string way_out = fit >= 2 ? fmt::format("set checkpoint.keep = {}", fit - 1)
                                       : std::string("name a checkpoint.folder on a larger disk");
  job.notes.push_back(fmt::format("{} of {} each are wanted (checkpoint.keep = {}) and {} fit: {} are free at {}; {}",
                                  counted(static_cast<uint64_t>(wanted), "checkpoint"),
                                  format_bytes(job.checkpoint_bytes), checkpoint.keep, fit, format_bytes(*free),
                                  job.run_folder().string(), way_out));
}

// Whether the user left the key of a folder for copies to this program: an empty one of a --set asks for none.
bool leaves_open(const JobRequest& request, std::string_view folder_key) {
  const std::vector<config::Key> keys = config::keys_of(request.config.family);
  const config::Key* key = config::find_key(keys, folder_key);
  return key != nullptr && key->write(request.config) == config::toml_text(std::string_view()) &&
         std::ranges::none_of(request.overrides, [&](const std::string& text) { return text.starts_with(folder_key); });
}

// The archive and what is in it, of which libraries become a third of their size in it.
double archive_bytes(const JobRequest& request) {
  std::error_code missing;
  const auto bytes = request.archive.empty() ? 0 : fs::file_size(request.working_folder / request.archive, missing);
  return missing ? 0 : 5 * static_cast<double>(bytes);
}

// Decides what is staged on the nodes' disks. At most two checkpoints at a time are staged, each node's ranks their own
// shares of them. Data get the other room.
void choose_staging(Job& job) {
  const machine::Launch& launch = job.request.machine.launch;
  const config::CheckpointConfig& checkpoint = job.request.config.checkpoint;
  if (launch.node_disk.empty()) return;
  const double staged = 2 * job.checkpoint_bytes / static_cast<double>(job.request.nodes);
  double room = launch.node_disk_bytes - archive_bytes(job.request);
  if (checkpoint.saves_beside_training() && leaves_open(job.request, "checkpoint.staging")) {
    job.stages = staged <= room;
    if (!job.stages) {
      job.notes.push_back(fmt::format("checkpoints are not staged on {}: two of them take {} a node, and it has {}",
                                      launch.node_disk, format_bytes(staged), format_bytes(launch.node_disk_bytes)));
    }
  }
  if (job.stages || !checkpoint.staging.empty()) room -= staged;
  if (room < data::least_stage_bytes || !leaves_open(job.request, "data.stage")) return;
  job.data_stage_bytes = static_cast<int64_t>(room);
}

constexpr const char* best_way_out = "; --best launches the fastest layout that fits";

void check_options(const JobRequest& request) {
  const std::string problem = machine::options_problem(request.sbatch_options, true);
  if (!problem.empty()) throw UserError::of("what sbatch is given {}", problem);
}

// Throws as a plan does, and names --best.
void check_layout(const Job& job) {
  try {
    schedule::check_ranks(job.request.config, job.ranks, job.ranks_per_node);
  } catch (const UserError& error) {
    throw UserError(error.what() + std::string(best_way_out), error.code);
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
  return plan::signal_seconds(step_seconds, save_seconds);
}

Job make_job(JobRequest request) {
  Job job{.request = std::move(request)};
  check_options(job.request);
  job.ranks_per_node = job.request.machine.devices_of("node");
  job.ranks = job.request.nodes * job.ranks_per_node;
  const plan::Target target{
      .machine = job.request.machine, .software = machine::load_software("terrace"), .devices = job.ranks};
  plan::check_target(job.request.config, target);
  check_layout(job);
  job.prediction = plan::predict(job.request.config, target);
  if (!job.prediction.feasible()) throw UserError(job.prediction.reason + best_way_out, ExitCode::infeasible);
  job.run_seconds = plan::run_cost(job.request.config, job.prediction, target).calendar.training();
  const plan::CheckpointEstimate checkpoint = plan::checkpoint_estimate(job.prediction, target);
  job.checkpoint_bytes = checkpoint.bytes;
  job.save_seconds = checkpoint.seconds > 0
                         ? checkpoint.seconds
                         : checkpoint.bytes / (assumed_bandwidth * static_cast<double>(job.request.nodes));
  if (job.request.with_slurm) {
    choose_times(job);
    note_times(job);
    note_modules(job);
  }
  note_device(job);
  count_checkpoints(job);
  choose_staging(job);
  return job;
}

std::string summary_of(const Job& job) {
  const std::string fit =
      job.checkpoints_that_fit ? fmt::format(", {} fit", format_count(*job.checkpoints_that_fit)) : std::string();
  std::string text = fmt::format(
      "{} on {}{} of {}; predicted: {} a step, {} for all {} steps; a checkpoint of {} is saved in {}{}",
      counted(static_cast<uint64_t>(job.ranks), "rank"), counted(static_cast<uint64_t>(job.request.nodes), "node"),
      job.request.spares > 0 ? fmt::format(" and {} spare", job.request.spares) : "", job.request.machine.name,
      format_seconds(job.prediction.step_seconds),
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
          {"spares", job.request.spares},
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
