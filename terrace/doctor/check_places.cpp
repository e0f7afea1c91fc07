// Checks where ranks run: their GPUs, their cores, and which of them are neighbours.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/system/core_list.h"
#include "terrace/base/text/plural.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

// Less than this is what a system does by itself.
constexpr double least_other_cores = 0.2, least_other_share = 0.1;

bool in_slurm(const JobReadings& job) { return !variable_of(job.front(), "SLURM_JOB_ID").empty(); }

// Dies of MI250X and MI250, two of which are one GPU.
bool is_die_of_pair(const Gpu& gpu) { return gpu.model == "0x7408" || gpu.model == "0x740c"; }

std::map<std::string, int64_t> ranks_by_host(const JobReadings& job) {
  std::map<std::string, int64_t> counts;
  for (const Readings& rank : job) ++counts[rank.host];
  return counts;
}

// The cores of the job's node for each of its ranks.
int64_t fair_cores(int64_t ranks, const Readings& rank) {
  auto cores = static_cast<double>(cores_of_list(rank.job_cores).count());
  if (rank.quota > 0) cores = std::min(cores, rank.quota);
  return static_cast<int64_t>(cores) / ranks;
}

std::set<int64_t> numa_of(const Readings& rank, const CoreMask& cores) {
  std::set<int64_t> numbers;
  for (const auto& [list, number] : rank.numa_of_cores) {
    if ((cores_of_list(list) & cores).any()) numbers.insert(number);
  }
  return numbers;
}

CoreMask cores_beside(const Readings& rank, const Gpu& gpu) {
  const CoreMask near = cores_of_list(gpu.cores);
  if (near.any()) return near;
  for (const auto& [list, number] : rank.numa_of_cores) {
    if (number == gpu.numa) return cores_of_list(list);
  }
  return {};
}

std::string far_cores(const Readings& rank, const CoreMask& own, const std::string& address) {
  const Gpu* const gpu = gpu_of(rank, address);
  if (gpu == nullptr) return "";
  const CoreMask near = cores_beside(rank, *gpu);
  if (near.none() || (own & near).any()) return "";
  return fmt::format("cores {} on NUMA {}, while GPU {} is on NUMA {}, next to cores {}", rank.cores,
                     fmt::join(numa_of(rank, own), ","), address, gpu->numa, list_of_cores(near));
}

// A rank with a GPU is to have more than one core even where Slurm gave its job no more.
std::string few_cores(int64_t ranks, const Readings& rank, const CoreMask& own, const std::string& address) {
  const auto all = static_cast<int64_t>(cores_of_list(address.empty() ? rank.job_cores : rank.node_cores).count());
  const int64_t fair = address.empty() ? fair_cores(ranks, rank) : all / ranks;
  if (own.count() != 1 || fair < 2) return "";
  return fmt::format("one core, {}, of {} on the node for {}", rank.cores, all,
                     counted(static_cast<uint64_t>(ranks), "rank"));
}

std::string spread_cores(const Readings& rank, const CoreMask& own) {
  const std::set<int64_t> numbers = numa_of(rank, own);
  if (variable_of(rank, "MPICH_OFI_NIC_POLICY") != "NUMA" || numbers.size() < 2) return "";
  return fmt::format("cores {} on NUMA {} with MPICH_OFI_NIC_POLICY=NUMA", rank.cores, fmt::join(numbers, ","));
}

std::string cores_of_system(const Readings& rank, const CoreMask& own) {
  std::vector<int64_t> reserved;
  for (const int64_t core : rank.first_cores) {
    if (own[static_cast<size_t>(core)]) reserved.push_back(core);
  }
  if (reserved.empty()) return "";
  return fmt::format("cores {} hold core {}, the first of a region with one L3 cache", rank.cores,
                     fmt::join(reserved, ", "));
}

// Whether the first core of each L3 region belongs to the system.
bool leaves_system_cores(const JobReadings& job) { return has_amd_gpus(job) && has_slingshot(job); }

// The cores that each rank can have: those of the node divided by its ranks, or of the regions of each rank all but the
// first, counting no core's second thread.
int64_t cores_for_each(const JobReadings& job) {
  const Readings& rank = job.front();
  const int64_t ranks = ranks_by_host(job).at(rank.host);
  const std::vector<int64_t>& firsts = rank.first_cores;
  if (leaves_system_cores(job) && firsts.size() > 1) {
    return std::max<int64_t>(1, std::ssize(firsts) / ranks) * (firsts[1] - firsts[0] - 1);
  }
  return std::max<int64_t>(1, static_cast<int64_t>(cores_of_list(rank.node_cores).count()) / ranks);
}

std::string binding_for(const JobReadings& job) {
  const bool gpus = has_gpus(job);
  if (!in_slurm(job)) {
    return gpus ? "mpirun --bind-to none, after which each rank keeps to the cores near its GPU"
                : "mpirun --bind-to none";
  }
  return fmt::format("srun -c {}{}", cores_for_each(job), gpus ? " --gpus-per-task=1 --gpu-bind=closest" : "");
}

// HIP counts the GPUs that ROCR_VISIBLE_DEVICES leaves, so a second list, mostly with the same numbers, names others or
// none. HIP takes CUDA's variable too.
std::vector<std::string> second_lists(const Readings& rank) {
  std::vector<std::string> names;
  const bool has_amd = std::ranges::find(rank.gpus, "AMD", &Gpu::vendor) != rank.gpus.end();
  for (const char* name : {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    if (has_amd && rank.environment.contains(name)) names.emplace_back(name);
  }
  return names;
}

// ": HIP_VISIBLE_DEVICES=3 counts the GPUs that ROCR_VISIBLE_DEVICES=3 leaves".
std::string lists_of(const Readings& rank) {
  const std::vector<std::string> second = second_lists(rank);
  if (second.empty()) return "";
  std::string list = fmt::format(": {}={}", second[0], variable_of(rank, second[0]));
  if (!rank.environment.contains("ROCR_VISIBLE_DEVICES")) return list;
  return fmt::format("{} counts the GPUs that ROCR_VISIBLE_DEVICES={} leaves", list,
                     variable_of(rank, "ROCR_VISIBLE_DEVICES"));
}

// The ranks of which something was found decide.
std::string fix_of_devices(const JobReadings& job, const std::vector<std::string>& found) {
  std::set<std::string> second;
  bool is_bound = true;
  for (size_t i = 0; i < job.size(); ++i) {
    if (found[i].empty()) continue;
    for (const std::string& name : second_lists(job[i])) second.insert(name);
    is_bound &= job[i].environment.contains("ROCR_VISIBLE_DEVICES");
  }
  std::string binding = in_slurm(job) ? "srun --gpus-per-task=1 --gpu-bind=closest"
                                      : "mpirun --map-by ppr:N:node, with N the GPUs of a node";
  if (second.empty()) return binding;
  const std::string without = fmt::format("unset {}", fmt::join(second, " "));
  return is_bound ? without : fmt::format("{}, and {}", without, binding);
}

}  // namespace

CheckOutcome check_one_device(const JobReadings& job) {
  if (!has_gpus(job)) return does_not_apply("no GPU that computes is on the bus");
  if (!std::ranges::all_of(job, &Readings::knows_used_gpus)) {
    return does_not_apply("this program was built without the GPUs that are on the bus");
  }
  const std::vector<std::string> addresses = used_gpus(job);
  std::map<std::pair<std::string, std::string>, size_t> first_on;
  std::vector<std::string> found(job.size());
  for (size_t i = 0; i < job.size(); ++i) {
    const Readings& rank = job[i];
    if (addresses[i].empty()) {
      if (rank.gpus.empty()) continue;
      found[i] = fmt::format("can use none of the node's {} GPUs{}", rank.gpus.size(), lists_of(rank));
      continue;
    }
    const auto [first, is_new] = first_on.try_emplace({rank.host, addresses[i]}, i);
    if (is_new) continue;
    found[i] = fmt::format("has GPU {}, as rank {} has{}", addresses[i], job[first->second].rank, lists_of(rank));
  }
  return outcome_of(job, found,
                    {.severity = Severity::error,
                     .why = "ranks that share a GPU wait for each other and halve its memory; without one they compute "
                            "on the CPU or stop",
                     .fix = fix_of_devices(job, found)});
}

CheckOutcome check_near_cores(const JobReadings& job) {
  if (std::ranges::any_of(job, [](const Readings& rank) { return rank.cores.empty(); })) {
    return does_not_apply("the kernel does not list the cores of this process");
  }
  const std::vector<std::string> addresses = used_gpus(job);
  Finding finding{.severity = Severity::error,
                  .why =
                      "far cores slow every copy and every launch of a kernel, and one core computes for all threads "
                      "of the rank",
                  .fix = binding_for(job)};
  const std::map<std::string, int64_t> ranks = ranks_by_host(job);
  std::vector<std::string> found(job.size());
  for (size_t i = 0; i < job.size(); ++i) {
    const CoreMask own = cores_of_list(job[i].cores);
    found[i] = few_cores(ranks.at(job[i].host), job[i], own, addresses[i]);
    if (found[i].empty()) found[i] = far_cores(job[i], own, addresses[i]);
    if (found[i].empty()) found[i] = spread_cores(job[i], own);
  }
  if (leaves_system_cores(job) && std::ranges::all_of(found, &std::string::empty)) {
    for (size_t i = 0; i < job.size(); ++i) found[i] = cores_of_system(job[i], cores_of_list(job[i].cores));
    finding.severity = Severity::warning;
    finding.why = "these cores belong to the system, whose work interrupts the rank, and all ranks wait for that one";
    finding.fix = "#SBATCH -S 8, or --cpu-bind=mask_cpu: with a mask that leaves them out";
  }
  return outcome_of(job, found, std::move(finding));
}

CheckOutcome check_shared_cores(const JobReadings& job) {
  if (std::ranges::all_of(job, [](const Readings& rank) { return rank.other_work.seconds < 0; })) {
    return does_not_apply("what other processes do was not watched");
  }
  const std::vector<std::string> found = found_on(job, [](const Readings& rank) -> std::string {
    const OtherWork& work = rank.other_work;
    const auto cores = static_cast<double>(cores_of_list(rank.cores.empty() ? rank.node_cores : rank.cores).count());
    if (work.cores < std::max(least_other_cores, least_other_share * cores)) return "";
    return fmt::format("other work took {:.1f} of the {:.0f} cores{}", work.cores, cores,
                       work.busiest.empty() ? "" : fmt::format(", most of it {}", work.busiest));
  });
  return outcome_of(
      job, found,
      {.severity = Severity::warning,
       .why = "the threads of a rank wait for each other after every operation, so that one core that is "
              "taken away for a part of the time slows all of them",
       .fix = "end the other work, ask Slurm for whole nodes (#SBATCH --exclusive), or bind the run to cores "
              "that are free with taskset"});
}

CheckOutcome check_pairs(const JobReadings& job) {
  const bool has_pairs =
      std::ranges::any_of(job, [](const Readings& rank) { return std::ranges::any_of(rank.gpus, is_die_of_pair); });
  if (!has_pairs) return does_not_apply("no GPU of two dies, as MI250X is");
  const std::vector<int64_t> local = local_ranks(job);
  if (std::ranges::none_of(local, [](int64_t number) { return number > 0; })) {
    return does_not_apply("there is one rank on each node");
  }
  const std::vector<std::string> addresses = used_gpus(job);
  std::map<std::string, size_t> even;  // the last rank with an even number on each node
  std::vector<std::string> found(job.size());
  for (size_t i = 0; i < job.size(); ++i) {
    if (local[i] % 2 == 0) {
      even[job[i].host] = i;
      continue;
    }
    const size_t other = even[job[i].host];
    std::vector<std::string> dies;
    for (const Gpu& gpu : job[i].gpus) {
      if (is_die_of_pair(gpu)) dies.push_back(gpu.address);
    }
    const auto own = std::ranges::find(dies, addresses[i]), neighbour = std::ranges::find(dies, addresses[other]);
    if (own == dies.end() || neighbour == dies.end() || own == neighbour) continue;
    if ((own - dies.begin()) / 2 == (neighbour - dies.begin()) / 2) continue;
    found[i] =
        fmt::format("die {} and die {} of rank {} are of two GPUs", addresses[i], addresses[other], job[other].rank);
  }
  return outcome_of(
      job, found,
      {.severity = Severity::warning,
       .why = "the two dies of a GPU have the fastest link of the node, which tensor parallelism over two "
              "neighbours needs",
       .fix = "srun --gpus-per-task=1 --gpu-bind=closest, without --distribution and --cpu-bind"});
}

CheckOutcome check_rank_order(const JobReadings& job) {
  if (std::ranges::all_of(job, [&](const Readings& rank) { return rank.host == job.front().host; })) {
    return does_not_apply("all ranks are on one node");
  }
  std::set<std::string> seen;
  std::vector<std::string> found(job.size());
  for (size_t i = 0; i < job.size(); ++i) {
    const bool goes_on = i > 0 && job[i - 1].host == job[i].host;
    if (!goes_on && !seen.insert(job[i].host).second) found[i] = "is apart from the other ranks of its node";
  }
  return outcome_of(job, found,
                    {.severity = Severity::error,
                     .why = "neighbours exchange most, and over the network instead of the node's links",
                     .fix = in_slurm(job) ? "srun --distribution=block:cyclic" : "mpirun --map-by slot"});
}

}  // namespace terrace::doctor
