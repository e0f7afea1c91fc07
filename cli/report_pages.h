// The page of terrace report, from the folders of runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"

namespace terrace::cli {

// The runs that a page shows, and the keys by whose values it names them; none: those that differ, if they are few.
struct ShownRuns {
  std::vector<std::string> folders, by = {};
};

// ReportedRun::state of a run's folder.
using StateOf = std::function<std::optional<Json>(const std::string& folder)>;

// Throws UserError where a folder holds no run. If `some_later`, such runs are named on the page of the others, and it
// throws where all are such. Without `state_of` the page says nothing of states.
std::string report_page_of(const ShownRuns& runs, bool some_later = false, const StateOf& state_of = nullptr);

}  // namespace terrace::cli
