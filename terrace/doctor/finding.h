// Defines what a check of `terrace doctor` reports.
#pragma once

#include <string>
#include <vector>

namespace terrace::doctor {

// An error stops a run or makes it compute something else than was asked for; a warning makes it slow or shortens it.
enum class Severity { warning, error };

struct Finding {
  std::string check = {};  // the name of the check
  Severity severity = Severity::error;
  std::string found = {};  // the problem, with its numbers and, where ranks differ, the ranks and their nodes
  std::string why = {};    // the consequence of the problem
  std::string fix = {};    // the line that fixes it

  bool operator==(const Finding&) const = default;
};

// The result of one check of a job: findings, or the reason for which the check does not apply here, or neither where
// all is well.
struct CheckOutcome {
  std::vector<Finding> findings = {};
  std::string not_applicable = {};
};

}  // namespace terrace::doctor
