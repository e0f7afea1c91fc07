// Groups ranks by what was found on them.
#include "terrace/doctor/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/mesh/rank_list.h"

namespace terrace::doctor {
namespace {

template <typename Property>
bool any_rank(const JobReadings& job, Property&& property) {
  return std::ranges::any_of(job, std::forward<Property>(property));
}

std::set<std::string> hosts_of(const JobReadings& job, const std::vector<int64_t>& ranks) {
  std::set<std::string> hosts;
  for (const int64_t rank : ranks) hosts.insert(job[static_cast<size_t>(rank)].host);
  return hosts;
}

std::string place_of(const JobReadings& job, const std::vector<int64_t>& ranks) {
  const std::set<std::string> hosts = hosts_of(job, ranks);
  const std::string list = ranks.size() == job.size() && ranks.size() > 1
                               ? fmt::format("all {} ranks", format_count(static_cast<int64_t>(ranks.size())))
                               : ranks_at(job, ranks);
  return hosts.size() == 1 ? fmt::format("{} on {}", list, *hosts.begin())
                           : fmt::format("{} on {}", list, counted(hosts.size(), "node"));
}

}  // namespace

std::string ranks_at(const JobReadings& job, std::vector<int64_t> places) {
  for (int64_t& place : places) place = job[static_cast<size_t>(place)].rank;
  return mesh::rank_list(places);
}

bool has_gpus(const JobReadings& job) {
  return any_rank(job, [](const Readings& rank) { return !rank.gpus.empty(); });
}

bool has_amd_gpus(const JobReadings& job) {
  return any_rank(job, [](const Readings& rank) {
    return std::ranges::any_of(rank.gpus, [](const Gpu& gpu) { return gpu.vendor == "AMD"; });
  });
}

bool is_slingshot(const std::string& interface) { return interface.starts_with("hsn"); }

bool has_slingshot(const JobReadings& job) {
  return any_rank(job, [](const Readings& rank) { return std::ranges::any_of(rank.interfaces, is_slingshot); });
}

bool has_infiniband(const JobReadings& job) {
  return any_rank(job, [](const Readings& rank) { return !rank.infiniband.empty(); });
}

int64_t nodes_of(const JobReadings& job) {
  if (job.front().nodes > 0) return job.front().nodes;
  std::set<std::string> hosts;
  int64_t of_slurm = 0;
  for (const Readings& rank : job) {
    hosts.insert(rank.host);
    const std::string of_step = variable_of(rank, "SLURM_STEP_NUM_NODES");
    const std::string number = of_step.empty() ? variable_of(rank, "SLURM_JOB_NUM_NODES") : of_step;
    std::from_chars(number.data(), number.data() + number.size(), of_slurm);
  }
  return std::max(of_slurm, static_cast<int64_t>(hosts.size()));
}

std::vector<int64_t> local_ranks(const JobReadings& job) {
  std::map<std::string, int64_t> counts;
  std::vector<int64_t> local;
  for (const Readings& rank : job) local.push_back(counts[rank.host]++);
  return local;
}

std::vector<std::string> used_gpus(const JobReadings& job) {
  const std::vector<int64_t> local = local_ranks(job);
  std::vector<std::string> addresses;
  for (size_t i = 0; i < job.size(); ++i) {
    const std::vector<std::string>& usable = job[i].used_gpus;
    addresses.push_back(usable.empty() ? "" : usable[static_cast<size_t>(local[i]) % usable.size()]);
  }
  return addresses;
}

const Gpu* gpu_of(const Readings& rank, const std::string& address) {
  const auto found = std::ranges::find(rank.gpus, address, &Gpu::address);
  return found == rank.gpus.end() ? nullptr : &*found;
}

std::string variable_of(const Readings& rank, const std::string& name) {
  const auto found = rank.environment.find(name);
  return found == rank.environment.end() ? "" : found->second;
}

std::vector<std::string> found_on(const JobReadings& job, const std::function<std::string(const Readings&)>& problem) {
  std::vector<std::string> found;
  for (const Readings& rank : job) found.push_back(problem(rank));
  return found;
}

CheckOutcome outcome_of(const JobReadings& job, const std::vector<std::string>& found, Finding finding) {
  constexpr size_t most_texts = 4;
  std::vector<std::pair<std::string, std::vector<int64_t>>> texts;
  for (size_t i = 0; i < job.size(); ++i) {
    if (found[i].empty()) continue;
    auto same = std::ranges::find(texts, found[i], &std::pair<std::string, std::vector<int64_t>>::first);
    if (same == texts.end()) same = texts.insert(same, {found[i], {}});
    same->second.push_back(static_cast<int64_t>(i));
  }
  if (texts.empty()) return {};
  std::vector<std::string> parts;
  size_t left_out = 0;
  for (const auto& [text, ranks] : texts) {
    if (parts.size() < most_texts) {
      parts.push_back(job.size() == 1 && job.front().nodes <= 1 ? text
                                                                : fmt::format("{}: {}", place_of(job, ranks), text));
    } else {
      left_out += ranks.size();
    }
  }
  if (left_out > 0) parts.push_back(fmt::format("and {} more like these", counted(left_out, "rank")));
  finding.found = fmt::format("{}", fmt::join(parts, "; "));
  return {.findings = {std::move(finding)}};
}

CheckOutcome does_not_apply(std::string reason) { return {.not_applicable = std::move(reason)}; }

}  // namespace terrace::doctor
