// The checks of `terrace doctor`, each a function of the readings of all ranks. docs/doctor.md says what each finds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/doctor/finding.h"
#include "terrace/doctor/job.h"

namespace terrace::doctor {

// Checks of the places where ranks run.
Outcome check_one_device(const Job& job);
Outcome check_near_cores(const Job& job);
Outcome check_shared_cores(const Job& job);
Outcome check_pairs(const Job& job);
Outcome check_rank_order(const Job& job);
// Checks of how the ranks communicate.
Outcome check_plug_in(const Job& job);
Outcome check_ways_of_nccl(const Job& job);
Outcome check_rendezvous(const Job& job);
Outcome check_cache_monitor(const Job& job);
Outcome check_interfaces(const Job& job);
Outcome check_gpu_support(const Job& job);
Outcome check_limits(const Job& job);
// Checks of the code that the ranks run.
Outcome check_code_object(const Job& job);
Outcome check_driver(const Job& job);
Outcome check_versions(const Job& job);
// The finding of the check of versions on ranks with other programs, without the text of what it found. `has_disk`:
// nodes have disks.
Finding other_versions(bool has_disk);
// Checks of free memory, of disks and of the time that is left.
Outcome check_memory(const Job& job);
Outcome check_memory_errors(const Job& job);
Outcome check_shared_memory(const Job& job);
Outcome check_caches(const Job& job);
Outcome check_node_disk(const Job& job);
Outcome check_run_folder(const Job& job);
Outcome check_time_left(const Job& job);
// Checks of how fast the ranks are, if they have measured it.
Outcome check_products(const Job& job);
Outcome check_copies(const Job& job);
Outcome check_links(const Job& job);

struct Check {
  std::string_view name;
  Outcome (*judge)(const Job&);
};
std::span<const Check> checks();
std::span<const Check> speed_checks();

struct Diagnosis {
  int64_t ranks = 1, nodes = 1;
  int64_t nodes_read = 1;  // fewer where the ranks are not on all nodes of the job
  std::vector<Finding> findings = {};
  std::vector<std::string> checks = {};                                  // names of the checks that were made
  std::vector<std::pair<std::string, std::string>> not_applicable = {};  // names of the other checks, with reasons
};

// Makes every check that applies to the job, those of speed only if a rank has measured its own.
Diagnosis diagnose(const Job& job);

// {"check", "severity", "found", "why", "fix"}.
Json json_of(const Finding& finding);
// {"findings": [{"check", "severity", "found", "why", "fix"}], "checks": [..], "not_applicable": [{"check", "reason"}],
// "ranks", "nodes", "nodes_read"}.
Json json_of(const Diagnosis& diagnosis);
// Lines for a terminal, with a line break at the end of each.
std::string text_of(const Diagnosis& diagnosis);
// The finding as one line of a log.
std::string line_of(const Finding& finding);

}  // namespace terrace::doctor
