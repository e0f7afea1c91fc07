// Makes runs that a planner can predict of the rows of a table.
#pragma once

#include <string>
#include <vector>

#include "terrace/score/published_run.h"
#include "terrace/score/published_table.h"

namespace terrace::score {

// A user's words about all rows, which count before those of the table.
struct Given {
  std::string machine = {}, software = {};  // a built-in name or a file; "": as the row says
  std::vector<std::string> overrides = {};  // "section.key=value" of the configuration
};

// One run for each row. A row that cannot be expressed has the reasons in PublishedRun::problems.
std::vector<PublishedRun> runs_of(const PublishedTable& table, const Given& given);

}  // namespace terrace::score
