// The page of terrace report, from the folders of runs.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

// Throws UserError where a folder holds no run.
std::string report_page_of(const std::vector<std::string>& runs);

}  // namespace terrace::cli
