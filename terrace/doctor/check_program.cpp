// Checks that the program fits the GPUs, and that all ranks run the same one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/doctor/checks.h"
#include "terrace/mesh/rank_list.h"

namespace terrace::doctor {
namespace {

// Code for "gfx90a" runs in both modes of page faults (xnack), that for "gfx90a:xnack-" with them off.
bool runs_on(const std::string& code, const std::string& target, bool xnack) {
  if (code.substr(0, code.find(':')) != target) return false;
  return code.find(xnack ? "xnack-" : "xnack+") == std::string::npos;
}

// The problem is one of a job, which was given the GPUs to compute with; a workstation may well have one for its
// screen.
std::string problem_of_nvidia(const Readings& rank) {
  const auto count = std::ranges::count(rank.gpus, "NVIDIA", &Gpu::vendor);
  if (count == 0 || rank.knows_used_gpus || variable_of(rank, "SLURM_JOB_ID").empty()) return "";
  return fmt::format("the program has no kernels for GPUs of NVIDIA, and the node has {}", count);
}

std::string problem_of_code(const Readings& rank) {
  std::set<std::string> targets;
  for (const Gpu& gpu : rank.gpus) {
    if (!gpu.target.empty()) targets.insert(gpu.target);
  }
  if (targets.empty()) return problem_of_nvidia(rank);
  if (variable_of(rank, "HSA_XNACK") == "1") {
    return fmt::format("HSA_XNACK=1 (xnack+) on GPUs {}", fmt::join(targets, ", "));
  }
  if (rank.targets.empty()) {
    if (rank.loads_hip) return "";  // its code objects may be compressed, so their names cannot be found
    return fmt::format("the program has no kernels for GPUs of AMD, and the node has {}", fmt::join(targets, ", "));
  }
  for (const std::string& target : targets) {
    const bool fits =
        std::ranges::any_of(rank.targets, [&](const std::string& code) { return runs_on(code, target, false); });
    if (!fits) return fmt::format("GPU {}, and kernels for {}", target, fmt::join(rank.targets, ", "));
  }
  return "";
}

// The oldest driver on which programs of a release of CUDA run: NVIDIA's release notes of CUDA 13.0, table "CUDA
// toolkit and minimum required driver version for minor version compatibility". "" for releases that are not in it.
std::string oldest_driver(int64_t cuda) {
  switch (cuda) {
    case 11:
      return "450.80.02";
    case 12:
      return "525.60.13";
    case 13:
      return "580.65.06";
    default:
      return "";
  }
}

std::vector<int64_t> numbers_of(const std::string& version) {
  std::vector<int64_t> numbers;
  std::istringstream parts(version);
  for (std::string part; std::getline(parts, part, '.');) numbers.push_back(std::atoll(part.c_str()));
  return numbers;
}

struct Variant {
  std::string digest;
  std::vector<int64_t> ranks;
};

// The digests of one file, those of most ranks first.
std::vector<Variant> variants_of(const JobReadings& job, const std::string& file) {
  std::vector<Variant> variants;
  for (size_t i = 0; i < job.size(); ++i) {
    const auto found = job[i].files.find(file);
    const std::string digest = found == job[i].files.end() ? "not there" : found->second;
    auto same = std::ranges::find(variants, digest, &Variant::digest);
    if (same == variants.end()) same = variants.insert(same, {digest, {}});
    same->ranks.push_back(static_cast<int64_t>(i));
  }
  std::ranges::stable_sort(variants,
                           [](const Variant& a, const Variant& b) { return a.ranks.size() > b.ranks.size(); });
  return variants;
}

}  // namespace

CheckOutcome check_code_object(const JobReadings& job) {
  const std::vector<std::string> found = found_on(job, problem_of_code);
  if (!has_amd_gpus(job) && std::ranges::all_of(found, &std::string::empty)) {
    return does_not_apply("no GPU of AMD that computes is on the bus");
  }
  const bool only_xnack =
      std::ranges::all_of(found, [](const std::string& text) { return text.empty() || text.starts_with("HSA_XNACK"); });
  return outcome_of(
      job, found,
      {.severity = has_amd_gpus(job) ? Severity::error : Severity::warning,
       .why = "kernels that were compiled for another GPU or for another mode of page faults do not start "
              "(hipErrorNoBinaryForGpu), and without kernels the ranks compute on the CPU",
       .fix = only_xnack          ? "export HSA_XNACK=0"
              : has_amd_gpus(job) ? "build terrace for the GPUs that were found (docs/gpu.md), with HSA_XNACK=0"
                                  : "build terrace with CUDA (docs/gpu.md), or say train.device = \"cpu\""});
}

CheckOutcome check_driver(const JobReadings& job) {
  if (std::ranges::all_of(job, [](const Readings& rank) { return rank.cuda == 0; })) {
    return does_not_apply("the program does not use CUDA");
  }
  if (std::ranges::none_of(job, [](const Readings& rank) { return !rank.driver.empty(); })) {
    return does_not_apply("no driver of NVIDIA is loaded");
  }
  const std::vector<std::string> found = found_on(job, [](const Readings& rank) -> std::string {
    const std::string oldest = oldest_driver(rank.cuda);
    if (oldest.empty() || rank.driver.empty() || numbers_of(rank.driver) >= numbers_of(oldest)) return "";
    return fmt::format("driver {}, and CUDA {} needs {} or later", rank.driver, rank.cuda, oldest);
  });
  return outcome_of(job, found,
                    {.severity = Severity::error,
                     .why = "an older driver starts no program of this CUDA: the ranks see no GPU and stop or compute "
                            "on the CPU",
                     .fix = "load the site's module for forward compatibility (cuda-compat), have the driver updated, "
                            "or build terrace with an older CUDA (docs/gpu.md)"});
}

Finding other_versions(bool has_disk) {
  return {.severity = Severity::error,
          .why =
              "ranks with other code compute other numbers or fail in the first exchange; a copy that was "
              "cut off leaves such a file",
          .fix = has_disk ? "sbcast -pf --send-libs terrace /mnt/bb/$USER/terrace, and check its exit code"
                          : "start all ranks from one folder that all nodes share"};
}

CheckOutcome check_versions(const JobReadings& job) {
  if (job.size() == 1) return does_not_apply("there is one rank to compare");
  std::set<std::string> names;
  for (const Readings& rank : job) {
    for (const auto& [name, digest] : rank.files) names.insert(name);
  }
  std::map<size_t, std::vector<std::string>> parts;  // by rank
  for (const std::string& name : names) {
    const std::vector<Variant> variants = variants_of(job, name);
    for (size_t i = 1; i < variants.size(); ++i) {
      for (const int64_t rank : variants[i].ranks) {
        parts[static_cast<size_t>(rank)].push_back(fmt::format("{} is {}, and {} on {}", name, variants[i].digest,
                                                               variants[0].digest, ranks_at(job, variants[0].ranks)));
      }
    }
  }
  std::vector<std::string> found(job.size());
  for (const auto& [rank, texts] : parts) found[rank] = fmt::format("{}", fmt::join(texts, ", "));
  const bool has_disk = std::ranges::any_of(job, [](const Readings& rank) { return !rank.node_disk.path.empty(); });
  return outcome_of(job, found, other_versions(has_disk));
}

}  // namespace terrace::doctor
