// The page of terrace report, from the folders of runs.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

// The runs that a page shows, and the keys by whose values it names them; none: those that differ, if they are few.
struct ShownRuns {
  std::vector<std::string> folders, by = {};
};

// Throws UserError where a folder holds no run. If `some_later`, such runs are named on the page of the others, and it
// throws where all are such.
std::string report_page_of(const ShownRuns& runs, bool some_later = false);

}  // namespace terrace::cli
