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
CheckOutcome check_one_device(const JobReadings& job);
CheckOutcome check_near_cores(const JobReadings& job);
CheckOutcome check_shared_cores(const JobReadings& job);
CheckOutcome check_pairs(const JobReadings& job);
CheckOutcome check_rank_order(const JobReadings& job);
// Checks of how the ranks communicate.
CheckOutcome check_plug_in(const JobReadings& job);
CheckOutcome check_ways_of_nccl(const JobReadings& job);
CheckOutcome check_rendezvous(const JobReadings& job);
CheckOutcome check_cache_monitor(const JobReadings& job);
CheckOutcome check_interfaces(const JobReadings& job);
CheckOutcome check_gpu_support(const JobReadings& job);
CheckOutcome check_limits(const JobReadings& job);
// Checks of the code that the ranks run.
CheckOutcome check_code_object(const JobReadings& job);
CheckOutcome check_driver(const JobReadings& job);
CheckOutcome check_versions(const JobReadings& job);
// The finding of the check of versions on ranks with other programs, without the text of what it found. `has_disk`:
// nodes have disks.
Finding other_versions(bool has_disk);
// Checks of free memory, of disks and of the time that is left.
CheckOutcome check_memory(const JobReadings& job);
CheckOutcome check_memory_errors(const JobReadings& job);
CheckOutcome check_shared_memory(const JobReadings& job);
CheckOutcome check_caches(const JobReadings& job);
CheckOutcome check_node_disk(const JobReadings& job);
CheckOutcome check_run_folder(const JobReadings& job);
CheckOutcome check_time_left(const JobReadings& job);
// Checks of how fast the ranks are, if they have measured it.
CheckOutcome check_products(const JobReadings& job);
CheckOutcome check_equal_products(const JobReadings& job);
CheckOutcome check_copies(const JobReadings& job);
CheckOutcome check_links(const JobReadings& job);

struct Check {
  std::string_view name;
  CheckOutcome (*judge)(const JobReadings&);
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
Diagnosis diagnose(const JobReadings& job);

// {"check", "severity", "found", "why", "fix"}.
Json json_of(const Finding& finding);
Finding finding_of(const Json& json);
// {"findings": [{"check", "severity", "found", "why", "fix"}], "checks": [..], "not_applicable": [{"check", "reason"}],
// "ranks", "nodes", "nodes_read"}.
Json json_of(const Diagnosis& diagnosis);
// Lines for a terminal, with a line break at the end of each.
std::string text_of(const Diagnosis& diagnosis);
// The finding as one line of a log.
std::string line_of(const Finding& finding);

}  // namespace terrace::doctor
