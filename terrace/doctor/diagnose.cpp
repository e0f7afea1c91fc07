// Lists the checks, makes them, and words what they found.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json_record.h"
#include "terrace/base/text/plural.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

constexpr std::array<std::string_view, 2> severity_words = {"warning", "error"};

}  // namespace

std::span<const Check> checks() {
  static constexpr std::array all = {
      Check{"one device", check_one_device},
      Check{"near cores", check_near_cores},
      Check{"shared cores", check_shared_cores},
      Check{"pairs", check_pairs},
      Check{"rank order", check_rank_order},
      Check{"plug-in", check_plug_in},
      Check{"ways of NCCL", check_ways_of_nccl},
      Check{"rendezvous", check_rendezvous},
      Check{"cache monitor", check_cache_monitor},
      Check{"interfaces", check_interfaces},
      Check{"GPU support of MPI", check_gpu_support},
      Check{"limits", check_limits},
      Check{"code object", check_code_object},
      Check{"driver", check_driver},
      Check{"versions", check_versions},
      Check{"memory", check_memory},
      Check{"memory errors", check_memory_errors},
      Check{"shared memory", check_shared_memory},
      Check{"caches", check_caches},
      Check{"node disk", check_node_disk},
      Check{"run folder", check_run_folder},
      Check{"time left", check_time_left},
  };
  return all;
}

std::span<const Check> speed_checks() {
  static constexpr std::array all = {Check{"products", check_products}, Check{"equal products", check_equal_products},
                                     Check{"copies", check_copies}, Check{"links", check_links}};
  return all;
}

Diagnosis diagnose(const JobReadings& job) {
  std::set<std::string> hosts;
  for (const Readings& rank : job) hosts.insert(rank.host);
  Diagnosis diagnosis{
      .ranks = static_cast<int64_t>(job.size()), .nodes = nodes_of(job), .nodes_read = std::ssize(hosts)};
  std::vector<Check> made(checks().begin(), checks().end());
  if (std::ranges::any_of(job, [](const Readings& rank) { return rank.measured.product_flops > 0; })) {
    made.insert(made.end(), speed_checks().begin(), speed_checks().end());
  }
  for (const Check& check : made) {
    const std::string name(check.name);
    CheckOutcome outcome = check.judge(job);
    if (!outcome.not_applicable.empty()) {
      diagnosis.not_applicable.emplace_back(name, outcome.not_applicable);
      continue;
    }
    diagnosis.checks.push_back(name);
    for (Finding& finding : outcome.findings) {
      finding.check = name;
      diagnosis.findings.push_back(std::move(finding));
    }
  }
  return diagnosis;
}

void members_of(auto& json, MaybeConst<Finding> auto& one) {
  json("check", one.check).word("severity", one.severity, severity_words, "has the severity");
  json("found", one.found)("why", one.why)("fix", one.fix);
}

Json json_of(const Finding& finding) { return json_of_record(finding); }

Finding finding_of(const Json& json) { return record_of<Finding>(json); }

Json json_of(const Diagnosis& diagnosis) {
  Json findings = Json::array(), left_out = Json::array();
  for (const Finding& finding : diagnosis.findings) findings.push_back(json_of(finding));
  for (const auto& [check, reason] : diagnosis.not_applicable) {
    left_out.push_back({{"check", check}, {"reason", reason}});
  }
  return {{"findings", findings},     {"checks", diagnosis.checks}, {"not_applicable", left_out},
          {"ranks", diagnosis.ranks}, {"nodes", diagnosis.nodes},   {"nodes_read", diagnosis.nodes_read}};
}

std::string text_of(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    text += fmt::format("{}: {}: {}\n  why: {}\n  fix: {}\n", severity_words[static_cast<size_t>(finding.severity)],
                        finding.check, finding.found, finding.why, finding.fix);
  }
  text +=
      fmt::format("{} in {} of {} on {}: {}\n", counted(diagnosis.findings.size(), "finding"),
                  counted(diagnosis.checks.size(), "check"), counted(static_cast<uint64_t>(diagnosis.ranks), "rank"),
                  counted(static_cast<uint64_t>(diagnosis.nodes), "node"), fmt::join(diagnosis.checks, ", "));
  if (diagnosis.nodes_read < diagnosis.nodes) {
    text += fmt::format("only {} of the job's {} was looked at: start it on all of them, as in srun terrace doctor\n",
                        diagnosis.nodes_read, counted(static_cast<uint64_t>(diagnosis.nodes), "node"));
  }
  for (const auto& [check, reason] : diagnosis.not_applicable) {
    text += fmt::format("not applicable: {}: {}\n", check, reason);
  }
  return text;
}

std::string line_of(const Finding& finding) {
  return fmt::format("{}: {}; {}. Fix: {}", finding.check, finding.found, finding.why, finding.fix);
}

}  // namespace terrace::doctor
