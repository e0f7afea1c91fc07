// Checks what is free: memory of GPUs, disks and time; and on which file systems a run writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/units.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

// A die of 64 GB must have 60 GB free.
constexpr double least_free_memory = 60.0 / 64, least_free_disk = 0.1;
constexpr double purged_days = 90, warned_days = 76;
// The least seconds that a job must have left: those that the signal below leaves, and those that a save takes at
// least, since files that are written at the same moment do not say how long they took.
constexpr double least_seconds = 600, least_save_seconds = 60;

bool is_nfs(const std::string& kind) { return kind.starts_with("nfs"); }

bool is_over_network(const std::string& kind) {
  constexpr std::array kinds = {"lustre", "gpfs", "beegfs", "panfs", "cifs", "fuse.sshfs"};
  return is_nfs(kind) || std::ranges::find(kinds, kind) != kinds.end();
}

std::string problem_of_memory(const Readings& rank) {
  std::vector<std::string> parts;
  for (const Gpu& gpu : rank.gpus) {
    const bool is_used =
        !rank.knows_used_gpus || std::ranges::find(rank.used_gpus, gpu.address) != rank.used_gpus.end();
    const int64_t free = gpu.memory_bytes - gpu.used_bytes;
    if (!is_used || static_cast<double>(free) >= least_free_memory * static_cast<double>(gpu.memory_bytes)) continue;
    parts.push_back(fmt::format("GPU {} has {} of {} free", gpu.address, format_bytes(static_cast<double>(free)),
                                format_bytes(static_cast<double>(gpu.memory_bytes))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string problem_of_caches(const Readings& rank) {
  std::vector<std::string> parts;
  for (const std::string name : {"MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"}) {
    const auto named = rank.caches.find(name);
    const Disk& disk = named == rank.caches.end() ? rank.home : named->second;
    if (!is_over_network(disk.file_system)) continue;
    parts.push_back(named == rank.caches.end()
                        ? fmt::format("{} is not set, and the home folder is on {}", name, disk.file_system)
                        : fmt::format("{}={} is on {}", name, disk.path, disk.file_system));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// A part that corrects so many errors wears out; single ones, from cosmic rays, are usual.
constexpr int64_t many_corrected = 1000;

std::string problem_of_memory_errors(const Readings& rank, bool& is_wrong) {
  std::vector<std::string> parts;
  for (const MemoryErrors& errors : rank.memory_errors) {
    const bool is_gpu = errors.place.starts_with("GPU ");
    const auto used = [&](const std::string& address) { return errors.place.ends_with(address); };
    if (is_gpu && rank.knows_used_gpus && std::ranges::none_of(rank.used_gpus, used)) continue;
    if (errors.uncorrected == 0 && errors.corrected < many_corrected) continue;
    is_wrong |= errors.uncorrected > 0;
    parts.push_back(fmt::format("{} has had {} errors that were not corrected and {} that were", errors.place,
                                format_count(errors.uncorrected), format_count(errors.corrected)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Containers have 64 MiB where they are not asked for more; NVIDIA's guides ask for 1 GiB. A quarter of it must be
// free, which files of dead processes may fill.
constexpr int64_t least_shared_bytes = int64_t{1} << 30;

std::string problem_of_shared_memory(const Readings& rank) {
  const Disk& disk = rank.shared_memory;
  if (disk.bytes > 0 && disk.bytes < least_shared_bytes) {
    return fmt::format("{} has {}", disk.path, format_bytes(static_cast<double>(disk.bytes)));
  }
  if (disk.bytes > 0 && disk.free_bytes > 0 && disk.free_bytes < least_shared_bytes / 4) {
    return fmt::format("{} has {} of {} free", disk.path, format_bytes(static_cast<double>(disk.free_bytes)),
                       format_bytes(static_cast<double>(disk.bytes)));
  }
  return "";
}

bool is_on_frontier(const JobReadings& job) { return variable_of(job.front(), "SLURM_CLUSTER_NAME") == "frontier"; }

}  // namespace

CheckOutcome check_memory(const JobReadings& job) {
  const bool knows = std::ranges::any_of(job, [](const Readings& rank) {
    return std::ranges::any_of(rank.gpus, [](const Gpu& gpu) { return gpu.memory_bytes > 0; });
  });
  if (!knows)
    return does_not_apply(has_gpus(job) ? "the driver of the GPUs has no file of their free memory"
                                        : "no GPU that computes is on the bus");
  return outcome_of(
      job, found_on(job, problem_of_memory),
      {.severity = Severity::error,
       .why = "another process or an earlier job holds this memory, and a run that was planned for all of it "
              "ends for want of memory",
       .fix = "end that process, or exclude the node with sbatch --exclude and report it to the centre"});
}

CheckOutcome check_memory_errors(const JobReadings& job) {
  if (std::ranges::all_of(job, [](const Readings& rank) { return rank.memory_errors.empty(); })) {
    return does_not_apply("no driver says how often memory was wrong");
  }
  bool is_wrong = false;
  const std::vector<std::string> found =
      found_on(job, [&](const Readings& rank) { return problem_of_memory_errors(rank, is_wrong); });
  return outcome_of(job, found,
                    {.severity = is_wrong ? Severity::error : Severity::warning,
                     .why = is_wrong ? "errors that are not corrected end a process, or change its numbers"
                                     : "so many corrected errors slow the memory, and others that are not corrected "
                                       "often follow",
                     .fix = "exclude the node with sbatch --exclude, and report it to the centre; a GPU that was reset "
                            "leaves out the rows of memory that failed"});
}

CheckOutcome check_shared_memory(const JobReadings& job) {
  if (std::ranges::all_of(job, [](const Readings& rank) { return rank.shared_memory.bytes == 0; })) {
    return does_not_apply("the size of /dev/shm is not known");
  }
  const bool several = job.size() > 1 || job.front().gpus.size() > 1;
  if (!several) return does_not_apply("there is one rank, and at most one GPU");
  return outcome_of(job, found_on(job, problem_of_shared_memory),
                    {.severity = Severity::warning,
                     .why = "ranks of a node exchange by files there, and NCCL, RCCL and MPI stop or take slower ways "
                            "where they do not fit",
                     .fix = "start the container with --shm-size=1g or more (docker, podman) or a larger tmpfs at "
                            "/dev/shm (Kubernetes), and remove files that dead processes left there"});
}

CheckOutcome check_caches(const JobReadings& job) {
  if (!has_amd_gpus(job)) return does_not_apply("no GPU of AMD that computes is on the bus");
  return outcome_of(job, found_on(job, problem_of_caches),
                    {.severity = Severity::warning,
                     .why = "MIOpen locks its files, which fails or waits where many ranks share them over a network",
                     .fix = "export MIOPEN_USER_DB_PATH=/tmp/miopen-$SLURM_JOB_ID "
                            "MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-$SLURM_JOB_ID"});
}

CheckOutcome check_node_disk(const JobReadings& job) {
  const bool has_disk = std::ranges::any_of(job, [](const Readings& rank) { return !rank.node_disk.path.empty(); });
  if (!has_disk && !is_on_frontier(job)) return does_not_apply("no folder of the user in /mnt/bb, as Frontier has it");
  std::vector<std::string> found;
  for (const Readings& rank : job) {
    const auto free = static_cast<double>(rank.node_disk.free_bytes), all = static_cast<double>(rank.node_disk.bytes);
    if (rank.node_disk.path.empty()) {
      found.emplace_back("no folder of the user in /mnt/bb");
    } else if (all > 0 && free < least_free_disk * all) {
      found.push_back(fmt::format("{} has {} of {} free", rank.node_disk.path, format_bytes(free), format_bytes(all)));
    } else {
      found.emplace_back();
    }
  }
  return outcome_of(job, found,
                    {.severity = Severity::warning,
                     .why = "programs start and data are read several times faster from the node's disk than from the "
                            "shared file system",
                     .fix = has_disk ? "remove files from /mnt/bb/$USER" : "#SBATCH -C nvme"});
}

CheckOutcome check_run_folder(const JobReadings& job) {
  if (job.front().run_folder.path.empty()) return does_not_apply("no folder of a run was given");
  std::vector<std::string> found;
  bool is_old = false;
  for (const Readings& rank : job) {
    const Disk& disk = rank.run_folder;
    const bool is_oldest = disk.file_system == "lustre" && rank.oldest_days > warned_days;
    if (is_nfs(disk.file_system)) {
      found.push_back(fmt::format("{} is on {}", disk.path, disk.file_system));
    } else if (is_oldest) {
      found.push_back(fmt::format("a file of {} was last used {:.0f} days ago", disk.path, rank.oldest_days));
    } else {
      found.emplace_back();
    }
    is_old |= is_oldest;
  }
  Finding finding{.severity = Severity::warning,
                  .why = "NFS is many times slower than a parallel file system when all ranks write their checkpoint",
                  .fix = is_on_frontier(job) ? "--set checkpoint.folder=/lustre/orion/PROJECT/scratch/$USER/RUN"
                                             : "--set checkpoint.folder=FOLDER_ON_A_PARALLEL_FILE_SYSTEM"};
  if (is_old) {
    finding.why =
        fmt::format("file systems such as Frontier's Orion remove files that were not used for {} days", purged_days);
    finding.fix = "copy the checkpoints that are to be kept to archive storage";
  }
  return outcome_of(job, found, std::move(finding));
}

CheckOutcome check_time_left(const JobReadings& job) {
  if (job.front().seconds_left < 0) return does_not_apply("no job of Slurm whose end is known");
  // The first rank reads the folder of the run for all, and asks Slurm where no variable says the end.
  const double save_seconds = job.front().save_seconds;
  const bool knows = save_seconds >= 0;
  const double needed = knows ? std::max(least_save_seconds, save_seconds) : least_seconds;
  std::vector<std::string> found;
  for (const Readings& rank : job) {
    const double left = rank.seconds_left < 0 ? job.front().seconds_left : rank.seconds_left;
    found.push_back(left >= needed ? ""
                    : knows ? fmt::format("the job ends in less than {}, which a save takes", format_seconds(needed))
                            : fmt::format("the job ends in less than {}", format_seconds(needed)));
  }
  return outcome_of(job, found,
                    {.severity = Severity::warning,
                     .why = "the run is ended before it has saved, and its work since the last checkpoint is lost",
                     .fix = "#SBATCH --signal=USR1@600 in a longer job: the ranks get the signal, save and end"});
}

}  // namespace terrace::doctor
